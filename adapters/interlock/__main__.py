"""`python -m interlock` is the command `bus`."""

import sys

from interlock.adapters.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
