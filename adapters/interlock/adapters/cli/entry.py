"""The command's front door: what agents call at every turn goes the short way, everything else through typer.

bus send | inbox | ack ──▶ short.py        standard library only, one round trip
bus …                  ──▶ app.py          typer owns --help, completion and every other verb
"""

import sys

from interlock.adapters.cli import options
from interlock.adapters.cli.options import Failure

SHORT = {"send": 2, "inbox": 0, "ack": 0}  # verb → words after which the rest is a message


def main() -> int:
    """Run one command line and return its exit code."""
    words = sys.argv[1:]
    try:
        return _run(words)
    except Failure as failure:
        return options.fail(failure, "--json" in words)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        options.closed_pipe()


def _run(words: list[str]) -> int:
    verb = next((word for word in words if not word.startswith("-")), "")
    given, rest = options.take_options(words, SHORT.get(verb, 0))
    if rest and rest[0] in SHORT and "--help" not in rest[:2]:
        from interlock.adapters.cli import short

        return short.run(rest[0], rest[1:], given)
    from interlock.adapters.cli import app

    return app.run(rest, given)


if __name__ == "__main__":
    sys.exit(main())
