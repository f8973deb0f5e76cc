"""The supervisor's process: detaches, serves, and says once on a pipe how that went. Started by `starting.py`."""

import os
import sys
from pathlib import Path

from interlock.adapters.lean_structlog import structlog  # first of all
from interlock.adapters.paths import Home
from interlock.adapters.service import AlreadyRunning, CannotServe, first_of, serve
from interlock.protocol.codes import Exit


def main() -> None:
    """Args (argv): the home, and the number of the descriptor to say READY, RUNNING or FAILED on."""
    home, fd = Home(Path(sys.argv[1])), int(sys.argv[2])
    os.set_inheritable(fd, False)
    if os.fork():
        os._exit(0)  # the starter's child ends here, so that nobody has to reap the supervisor
    umask = os.umask(0o077)  # ours; servers get the user's

    def say(word: str) -> None:
        try:
            os.write(fd, word.encode() + b"\n")
            os.close(fd)
        except OSError:
            pass  # The starter has given up; the supervisor serves all the same.

    try:
        serve(home, ready=lambda: say("READY"), pretty=False, umask=umask)
    except AlreadyRunning:
        say("RUNNING")
    except CannotServe as error:
        say(f"FAILED {int(error.code)} {error}")
        sys.exit(int(error.code))
    except Exception as error:  # our own fault, or something odd in the home: whoever starts us must hear of it
        structlog.get_logger("daemon").error("start_failed", exc_info=error)
        cause = first_of(error)
        say(f"FAILED {int(Exit.IO)} the supervisor failed ({type(cause).__name__}: {cause}): see {home.logs}")
        sys.exit(int(Exit.IO))


if __name__ == "__main__":
    main()
