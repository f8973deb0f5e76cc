"""The command's front door: what agents call at every turn goes the short way, everything else through typer.

bus send | inbox | ack ──▶ short.py        standard library only, one round trip
bus run                ──▶ running.py      likewise, for commands of some milliseconds
bus hooks run          ──▶ hooks_run.py    what git's hooks call: a commit waits for it
bus guard              ──▶ guarding.py     what stands before any command of a shell
bus …                  ──▶ app.py          typer owns --help, completion and every other verb
"""

import _signal  # type: ignore[import-not-found]  # as program.py has it
import sys

from interlock.adapters.cli import options
from interlock.adapters.cli.options import Failure, NoOutput

SHORT = {"send", "inbox", "ack"}
HELP = {"--help", "-h"}


def main() -> int:
    """Run one command line and return its exit code."""
    words = sys.argv[1:]
    try:
        if _signal.getsignal(_signal.SIGINT) == _signal.SIG_DFL:  # see program.py
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        return _run(words)
    except NoOutput as failure:
        return options.fail(failure, as_json=False)
    except Failure as failure:
        return options.fail(failure, _wants_json(words))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        options.closed_pipe()
    except OSError as error:
        options.to_nowhere(1)
        return options.fail(Failure(74, f"{error.strerror or error}: bus status shows whether the bus is well"), False)


def _wants_json(words: list[str]) -> bool:
    """As far as can be told of a command line that may be wrong; what stands after `--` is somebody else's."""
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def _run(words: list[str]) -> int:
    if words[:1] == ["__complete"]:
        from interlock.adapters.cli import completing

        return completing.run(words[1:])
    given, rest = options.take_options(words)
    if rest[:1] == ["run"] and not HELP & set(rest[1:2]):
        from interlock.adapters.cli import running

        return running.run(rest[1:], given)
    if rest[:2] == ["hooks", "run"] and not HELP & set(rest[2:3]):
        from interlock.adapters.cli import hooks_run

        return hooks_run.run(rest[2:], given)
    if rest[:1] == ["guard"] and not HELP & set(rest[1:2]):
        from interlock.adapters.cli import guarding

        return guarding.run(rest[1:], given)
    if rest and rest[0] in SHORT and not HELP & set(rest[:2]):
        from interlock.adapters.cli import short

        return short.run(rest[0], rest[1:], given)
    from interlock.adapters.cli import app

    return app.run(rest, given)


if __name__ == "__main__":
    sys.exit(main())
