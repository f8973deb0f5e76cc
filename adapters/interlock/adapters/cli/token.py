"""`bus token`: tokens that say for certain who an agent is, and what it may do."""

import os

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.options import Failure, say_out

ACTIONS = ("create", "list", "revoke")
_ALLOW = typer.Option([], "--allow", metavar="CAPABILITY", help="What its agent may do besides: resource.control.")


def command(
    action: str = typer.Argument("list", help="create, list or revoke."),
    name: str = typer.Argument("", help="Of the agent that a token is for."),
    allow: list[str] = _ALLOW,
    out: str = typer.Option("", "--out", metavar="FILE", help="A new file for it; default: tokens/NAME in the home."),
) -> int:
    """Make a token for an agent (`create NAME`), show whose there are (`list`), or end one (`revoke NAME`)."""
    from interlock.adapters.paths import BadHome
    from interlock.adapters.tokens import TokenExists
    from interlock.coordinator.toml_values import ConfigError
    from interlock.protocol.names import why_not_agent

    if action not in ACTIONS:
        raise Failure(64, f"no action {action!r}: bus token create, bus token list or bus token revoke")
    if action != "create" and (allow or out):
        raise Failure(64, "--allow and --out belong to bus token create")
    if action == "list":
        if name:
            raise Failure(64, f"{name!r} is too much: bus token list shows all")
    elif not name:
        raise Failure(64, f"say whose: bus token {action} NAME")
    elif (why_not := why_not_agent(name)) is not None:
        raise Failure(64, why_not)
    try:
        if action == "create":
            return _create(name, allow, out)
        return _list() if action == "list" else _revoke(name)
    except (TokenExists, BadHome) as error:
        raise Failure(73, str(error)) from None
    except ConfigError as error:
        raise Failure(78, str(error)) from None
    except OSError as error:
        raise Failure(74, f"{error.filename or 'the tokens'}: {error.strerror}: mend that, then again") from None


def _create(name: str, allow: list[str], out: str) -> int:
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.paths import find_home
    from interlock.adapters.tokens import LocalTokens
    from interlock.coordinator.config import CAPABILITIES

    unknown = [each for each in allow if each not in CAPABILITIES]
    if unknown:
        raise Failure(64, f"no capability {unknown[0]!r}: there is {', '.join(CAPABILITIES)}")
    home = find_home(Given.options.home)
    home.create()
    path = os.path.abspath(os.path.expanduser(out)) if out else ""
    token = LocalTokens(home).create(name, tuple(dict.fromkeys(allow)), path)
    if Given.options.json:
        say_json({"agent": name, "file": token.file, "allow": list(token.allow), "at": token.at})
    else:
        may = f", may {', '.join(token.allow)}" if token.allow else ""
        say_out(f"token for {name}{may}: {token.file}\ngive it to that agent alone: BUS_TOKEN_FILE={token.file}")
    return 0


def _list() -> int:
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.paths import find_home
    from interlock.adapters.tokens import LocalTokens

    tokens = LocalTokens(find_home(Given.options.home)).all()
    if Given.options.json:
        rows = [{"agent": e.agent, "allow": list(e.allow), "at": e.at, "file": e.file} for e in tokens]
        say_json({"tokens": rows})
        return 0
    width = max((len(each.agent) for each in tokens), default=0)
    for each in tokens:
        say_out(f"{each.agent:{width}}  {each.at}  {', '.join(each.allow) or '-'}")
    if not tokens:
        say_out("nobody has a token")
    return 0


def _revoke(name: str) -> int:
    from interlock.adapters.cli.output import say_json
    from interlock.adapters.paths import find_home
    from interlock.adapters.tokens import LocalTokens

    if not LocalTokens(find_home(Given.options.home)).revoke(name):
        raise Failure(77, f"{name} has no token: bus token list shows whose there are", "TARGET_ENDED")
    if Given.options.json:
        say_json({"revoked": name})
    else:
        say_out(f"REVOKED the token of {name}: it counts no more, in sessions that were begun with it neither")
    return 0
