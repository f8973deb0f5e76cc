"""The keeper: one launch's shim. It starts one command, reaps its whole tree, stops it when asked, says how it ended.

```text
spec ─▶ up ─▶ GO ─▶ go on disk ─▶ command started ─▶ ended ─▶ … the last descendant … ─▶ gone ─▶ exit 0
         └─ EOF, STOP, SIGTERM or no record: not_started, exit
SIGTERM, STOP (attached: EOF too) ─▶ SIGTERM to every descendant ─ stop_timeout_ms ─▶ SIGKILL until nothing is left
in a window:  command ◀─▶ a terminal of its own ◀─ keeper ─▶ the window, and the log      window closed ─▶ as SIGTERM
```

Run by path as `python -I -S …/keeper/__main__.py FD`, in a window without FD: this folder, `lean.py` and the little of
the standard library that is C or imported already, all imported before it says a word, so that it starts fast and an
upgrade under its feet cannot break it. (The folder itself, as `python -I -S …/keeper`, would run too, and import runpy
first: half as long again.) As a sub-reaper it inherits every orphan of its tree, setsid or double fork or not; "no
child left" is therefore the proof that the tree is gone. What is spared by name (daemons that outlive builds) is
neither counted nor signalled, and told of.

What it never does: execute anything before GO is on disk, leave before its tree, signal by a bare pid where the system
has pidfds, hand its control socket to the command, or die of the terminal's signals or of a full disk.
"""

import _socket  # what `socket` is made of: it imports half as much as all of us
import os
import sys

# Last, and for this import only: without site nothing of ours can be found, and nothing of others shall be.
sys.path.append(__file__.rpartition("/interlock/adapters/keeper/")[0])

from interlock.adapters.keeper.keeper import Keeper

if len(sys.argv) == 1:  # it imports as much as all the rest
    from interlock.adapters.keeper.window import Window
else:
    Window = None  # type: ignore[assignment,misc]  # nothing to carry on

sys.path.pop()


def main() -> int:
    """Keep the launch whose control socket is the file descriptor given; in a window, the one that waits for us."""
    if len(sys.argv) > 1:
        control = _socket.socket(fileno=int(sys.argv[1]))
    else:
        control = _socket.socket(_socket.AF_UNIX)
        control.connect(os.environ["INTERLOCK_CONTROL"])
    os.set_inheritable(control.fileno(), False)
    control.setblocking(False)
    return Keeper(control, Window).run()


if __name__ == "__main__":
    os._exit(main())  # an interpreter that ends in order takes a while, and there is nothing to put in order
