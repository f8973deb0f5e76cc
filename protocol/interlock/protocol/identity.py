"""Identity: which process, for ever. A pid alone is a number that the system gives to somebody else tomorrow."""

from enum import StrEnum

import msgspec


class Presence(StrEnum):
    """What a probe can say. Only *gone* frees anything; *unknown* never does."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


class Identity(msgspec.Struct, frozen=True, order=True):
    """One process, named so that no later process can pass for it.

    Never a wall-clock start time, which moves when the clock is set.

    Args:
        machine: /etc/machine-id, or the host's name where there is none.
        boot: the boot id; another boot of the same machine proves the process gone.
        pid_namespace: inode of the pid namespace, 0 where the system has none.
        pid: as seen in that namespace.
        start_ticks: raw start time since boot, `/proc/PID/stat` field 22 (clock ticks).
    """

    machine: str
    boot: str
    pid_namespace: int
    pid: int
    start_ticks: int
