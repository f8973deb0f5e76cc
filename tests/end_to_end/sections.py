"""Critical sections that were really entered: the program that enters them, and the checker of what it wrote.

Each line is `enter FENCE PID`, `leave FENCE PID` or `clash FENCE PID`. The program holds a file lock while it is
inside, which the kernel takes away when it dies: so a clash is two living processes in one section, never a guess.
"""

from itertools import pairwise
from pathlib import Path

PROGRAM = """import fcntl, os, sys
fence, pid, path = os.environ['BUS_FENCE'], os.getpid(), sys.argv[1]
notes = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
inside = os.open(path + '.inside', os.O_RDWR | os.O_CREAT)
note = lambda word: os.write(notes, f'{word} {fence} {pid}\\n'.encode())
try:
    fcntl.flock(inside, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    note('clash')
note('enter')
if os.environ['BUS_RESOURCE_URL']:
    import urllib.request
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    print(opener.open(os.environ['BUS_RESOURCE_URL'], timeout=10).read().decode(), end='', flush=True)
note('leave')
sys.exit(int(sys.argv[2]))
"""


def command(notes: Path, code: int = 0) -> list[str]:
    """The words of a command that enters the section once, shows the page it finds, and exits with that code."""
    return ["python3", "-c", PROGRAM, str(notes), str(code)]


def entered(notes: Path) -> list[str]:
    try:
        return notes.read_text().splitlines()
    except FileNotFoundError:
        return []


def faults(lines: list[str], *, killed: bool = False) -> list[str]:
    """What is wrong with these sections. Args: killed: whether one may have ended without a `leave`."""
    found, inside, fences = [], "", list[int]()
    for line in lines:
        word, fence, _ = line.split()
        who = line.partition(" ")[2]
        if word == "clash":
            found.append(f"two at once: {line}")
        elif word == "enter":
            if inside and not killed:
                found.append(f"{who} entered before {inside} left")
            fences.append(int(fence))
            inside = who
        elif who != inside:
            found.append(f"{who} left, but {inside or 'nobody'} was inside")
        else:
            inside = ""
    found += [f"fence {late} after {early}" for early, late in pairwise(fences) if late <= early]
    return found
