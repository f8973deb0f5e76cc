"""`python -m scripts.benching`, from the repository's top: the same as scripts/bench."""

import sys

from scripts.benching.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
