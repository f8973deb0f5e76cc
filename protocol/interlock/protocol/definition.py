"""The definition of a resource: what its configuration says, as the machine and the adapters need it."""

from enum import StrEnum

import msgspec


class Kind(StrEnum):
    """What a hand-over takes: nothing (lock), or a program stopped and started (server)."""

    LOCK = "lock"
    SERVER = "server"


class ServerDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the one server is started, known to be ready, and stopped. Source: contract §4.

    Args:
        start: command line for the user's login shell, run in the owner's worktree.
        url: what GRANTED tells the owner.
        health: must answer 200 before GRANTED; empty: not asked.
        ready_line: must have been printed before GRANTED; empty: not asked.
        ports: free on v4 and v6 before the start, and the server's own after it.
        start_timeout_ms: from GO until ready.
        stop_timeout_ms: between SIGTERM and SIGKILL.
        terminal: "tmux": it runs in a window that a person can attach to; "none": its output goes to its log alone.
        spare: daemons that outlive it, neither counted nor stopped: each a program's name, and arguments it must have.
    """

    start: str
    url: str = ""
    health: str = ""
    ready_line: str = ""
    ports: tuple[int, ...] = ()
    start_timeout_ms: int = 5 * 60_000
    stop_timeout_ms: int = 30_000
    terminal: str = "none"
    spare: tuple[tuple[str, ...], ...] = ()


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """One resource. `units` are its capacity, granted in this order; an ordinary one has the single unit "".

    Args:
        poll_ms: how often a silent owner is asked while others wait.
        claim_ms: a queued grant nobody has noticed for this long passes on, if others wait.
        reservation_ms: an unused grant of `bus run` lasts this long.
        time_max_ms: the longest declared time that polls respect.
        server: present for Kind.SERVER only.
    """

    kind: Kind = Kind.LOCK
    units: tuple[str, ...] = ("",)
    poll_ms: int = 3 * 60_000
    claim_ms: int = 2 * 60_000
    reservation_ms: int = 30_000
    time_max_ms: int = 30 * 60_000
    server: ServerDefinition | None = None
