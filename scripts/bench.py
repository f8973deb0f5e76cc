"""Starts the bench, see scripts/benching: a file, so that it runs from any folder."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # not this folder: its scripts are no modules for others

if __name__ == "__main__":
    from scripts.benching.command import main

    sys.exit(main(sys.argv[1:]))
