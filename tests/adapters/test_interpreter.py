"""What a supervisor has freed is not in its memory any more."""

import subprocess
import sys

import pytest

PROGRAM = """
from interlock.adapters.interpreter import give_back
give_back()
def mib():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) / 1024
before, small = mib(), []
for _ in range(20):
    large = []
    for _ in range(20):
        large.append(bytes(range(256)) * 3_500)
        small.append(bytes(2_000))
    del large
print(mib() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it is glibc that keeps it, and /proc that tells")
def test_large_pieces_go_back_to_the_kernel_whatever_small_ones_came_after_them() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 6, "16 MiB and more without it; the small ones are one"
