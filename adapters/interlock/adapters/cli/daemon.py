"""The supervisor's process: detaches, serves, and says once on a pipe how that went. Started by `starting.py`."""

import os
import sys
from pathlib import Path

from interlock.adapters.paths import Home
from interlock.adapters.service import AlreadyRunning, CannotServe, serve


def main() -> None:
    """Args (argv): the home, and the number of the descriptor to say READY, RUNNING or FAILED on."""
    home, fd = Home(Path(sys.argv[1])), int(sys.argv[2])
    os.set_inheritable(fd, False)
    if os.fork():
        os._exit(0)  # the starter's child ends here, so that nobody has to reap the supervisor
    os.umask(0o077)

    def say(word: str) -> None:
        try:
            os.write(fd, word.encode() + b"\n")
            os.close(fd)
        except OSError:
            pass  # The starter has given up; the supervisor serves all the same.

    try:
        serve(home, ready=lambda: say("READY"), pretty=False)
    except AlreadyRunning:
        say("RUNNING")
    except CannotServe as error:
        say(f"FAILED {int(error.code)} {error}")
        sys.exit(int(error.code))


if __name__ == "__main__":
    main()
