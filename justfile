# The scripts by name; each sets up what it needs.

setup:
    scripts/setup

demo:
    scripts/demo

test *ARGS:
    scripts/test {{ARGS}}

bench *ARGS:
    scripts/bench {{ARGS}}

simulate SEEDS="100":
    scripts/simulate {{SEEDS}}

fuzz INPUTS="100000":
    scripts/fuzz {{INPUTS}}

docs:
    .venv/bin/python scripts/docs.py

site *ARGS:
    scripts/site {{ARGS}}

picture:
    scripts/picture
