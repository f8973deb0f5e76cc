"""What a shell may offer next on a command line of `bus`. It asks a bus that runs, and starts none.

Printed one a line, each with a tab and what it is; or `:files`, `:dirs`, `:command`: then the shell knows better.
"""

import json
import os
import socket
from typing import Any

from interlock.adapters.cli import options
from interlock.adapters.cli.options import Failure
from interlock.adapters.homes import home_root
from interlock.adapters.lock_facts import NAME, lock_facts

ANSWER_S = 0.5  # a person waits with a finger on the key
REPLY_BYTES_MAX = 16 * 1024 * 1024
RESOURCE_VERBS = frozenset(
    ("request", "wait", "check", "release", "extend", "cancel", "restart", "attach", "logs", "status", "revoke",
     "recover", "policy")
)  # fmt: skip
PATH_VERBS = frozenset(("map", "watch"))
COMMON = {
    "--as": "who you are", "--home": "the bus's home", "--json": "print JSON", "--help": "what it takes",
}  # fmt: skip
FILES = {
    "--home": ":dirs",
    "--worktree": ":dirs",
    "--file": ":files",
    "--leases": ":files",
    "--sarif": ":files",
    "--output": ":files",
}
Offers = dict[str, str]  # what may stand there, and what it is


def run(words: list[str]) -> int:
    """Print the offers. Args: words: what stands on the line after `bus`, up to the cursor; the last may be empty."""
    words = words or [""]
    try:
        offers = candidates(words)
    except (Failure, OSError, ValueError, KeyError):
        return 0
    lines = [f"{value}\t{what}" if what else value for value, what in offers.items() if _fits(value, words[-1])]
    if lines:
        options.say_out("\n".join(lines))
    return 0


def candidates(words: list[str]) -> Offers:
    """What may stand where the last word is, whatever that holds so far."""
    *before, current = words
    if "--" in before:
        return {":command": ""}
    last = before[-1] if before else ""
    if last in FILES:
        return {FILES[last]: ""}
    home = before[before.index("--home") + 1] if "--home" in before else ""
    root = home_root(home)
    if last == "--as":
        return _agents(root)
    if last in {"--resource", "-r"}:
        return _resources(root)
    rest = options.take_options(before)[1]
    verb = next((word for word in rest if not word.startswith("-")), "")
    if current.startswith("-"):
        return {**_options_of(verb), **COMMON, **({} if verb else {"--version": "which version"})}
    return _arguments(verb, rest, root)


def _arguments(verb: str, rest: list[str], root: str) -> Offers:
    """What the verb takes at its next place."""
    from interlock.adapters.cli.app import EVERYDAY, OTHERS

    if not verb:
        return {**EVERYDAY, **OTHERS}
    if rest[-1].startswith("-") and _takes_value(verb, rest[-1]):
        return {}
    first = rest[-1] == verb
    if verb in RESOURCE_VERBS:
        return _resources(root)
    if verb in PATH_VERBS:
        return {":files": ""}
    if verb == "send" and first:
        return {"coordinator": "decides who has what", **_agents(root)}
    if verb == "help":
        return {"all": "every verb", **EVERYDAY, **OTHERS}
    if verb == "completion":
        return dict.fromkeys(("bash", "zsh", "fish"), "a shell")
    if verb == "errors":
        from interlock.protocol.codes import Code

        return {str(code): "" for code in Code}
    return {}


def _parameters(verb: str) -> list[object]:
    from typer.main import get_command

    from interlock.adapters.cli.app import EVERYDAY, OTHERS, build

    if verb not in {*EVERYDAY, *OTHERS}:
        return []
    group = get_command(build((verb,)))
    return list(getattr(group, "commands", {})[verb].params)


def _options_of(verb: str) -> Offers:
    found: Offers = {}
    for each in _parameters(verb) if verb else ():
        if not getattr(each, "hidden", False):
            names = [name for name in getattr(each, "opts", ()) if name.startswith("--")]
            found.update(dict.fromkeys(names, getattr(each, "help", "") or ""))
    return found


def _takes_value(verb: str, option: str) -> bool:
    named = [each for each in _parameters(verb) if option in getattr(each, "opts", ())]
    return bool(named) and not getattr(named[0], "is_flag", False)


def _resources(root: str) -> Offers:
    from interlock.protocol.names import short_name

    found: Offers = {}
    for each in _ask(root, "STATUS")["resources"]:
        name = short_name(each["resource"]) if each["declared"] else each["resource"]
        holders = ", ".join(holder["agent"] for holder in each["holders"])
        found[name] = f"{each['state']} {holders}".strip()
    return dict(sorted(found.items()))


def _agents(root: str) -> Offers:
    return {each["agent"]: each["presence"] for each in _ask(root, "AGENTS")["agents"] if each["presence"] != "gone"}


def _ask(root: str, question: str) -> dict[str, Any]:
    """The answer of a bus that runs. Without a hello: it is no sign of life of whoever's name this shell has.

    Raises OSError, ValueError, KeyError or Failure where none answers.
    """
    from interlock.adapters.cli.connection import connect

    pid = int(lock_facts(os.path.join(root, NAME))["pid"])
    os.kill(pid, 0)  # where nobody is, connecting could make a service manager start one
    with connect(root) as connection:
        connection.settimeout(ANSWER_S)
        asked = {"to": "supervisor", "id": "complete", "body": {"type": question}}
        connection.sendall(json.dumps(asked).encode() + b"\n")
        return dict(json.loads(_line(connection))["body"])


def _line(connection: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n") and len(data) < REPLY_BYTES_MAX:
        chunk = connection.recv(262144)
        if not chunk:
            break
        data += chunk
    return data


def _fits(value: str, current: str) -> bool:
    return value.startswith((current, ":"))
