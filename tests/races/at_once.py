"""Commands of `bus` at the very same moment, each a process of its own: `python -m tests.races.at_once`.

stdin: a JSON list of command lines, each a list of words. stdout: a JSON list of [exit code, what it printed].
"""

import json
import os
import sys

from tests.races.processes import bus, warm


def at_once(lines: list[list[str]]) -> list[tuple[int, str]]:
    """Start them all, let them go together, and return how each ended, in order."""
    gate, opener = os.pipe()
    pids, pipes = [], []

    def wait_for_gate() -> None:
        os.close(opener)
        os.read(gate, 1)  # until its other end is closed

    for words in lines:
        reading, writing = os.pipe()
        pids.append(bus(words, first=wait_for_gate, out=writing))
        pipes.append(os.fdopen(reading))
        os.close(writing)
    os.close(opener)
    said = [pipe.read() for pipe in pipes]
    return [(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text) for pid, text in zip(pids, said, strict=True)]


if __name__ == "__main__":
    warm()
    print(json.dumps(at_once(json.load(sys.stdin))))
