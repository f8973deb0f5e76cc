"""`python -m interlock` is the command `bus`."""

import sys

from interlock.adapters.cli.program import main

if __name__ == "__main__":
    sys.exit(main())
