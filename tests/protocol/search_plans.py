"""What is searched: each plan is one resource, its agents, and which part of everything can happen to it.

A slice has a few things happen and goes deep in no time; `EVERYTHING` is one resource with all of them at once.
"""

import msgspec
from tests.protocol.search_world import Config, definition

from interlock.protocol.definition import Definition, Kind

SERVER = definition(Kind.SERVER)
POOLED = definition(Kind.SERVER, ("0", "1"))
WAYS = ("/1", "/2")
THREE = ("a", "b", "c")

LOCK = Config("lock", definition(), THREE)
TIMES = Config("lock-times", definition(), times=True)
LOCK_HANDED = Config("lock-handed-on", definition(), THREE, handovers=True)
WEB_HANDED = Config("server-handed-on", definition(Kind.SERVER), worktrees=("w", "v"), handovers=True)
RUNS = Config("lock-runs", definition(), runs=True, commands=2)
ATTENDED = Config("lock-attended", definition(), attended=True)
POOL = Config("pool", definition(units=("0", "1")), THREE)
WEB = Config("server", SERVER, worktrees=WAYS)
POOL_HANDED = Config("pool-handed-on", definition(units=("0", "1")), THREE, handovers=True)
WEB_POOL = Config("server-pool", POOLED, worktrees=WAYS)
WEB_REDEFINED = Config("server-redefined", SERVER, worktrees=("/1",), other=definition(Kind.SERVER, start="other"))
LOCK_REDEFINED = Config("lock-redefined", definition(), THREE, other=definition(units=("0", "1")))
BECOMES_LOCK = Config("server-becomes-lock", SERVER, worktrees=WAYS, other=definition())
WEB_RUNS = Config("server-runs", SERVER, worktrees=("/1",), runs=True)
PREPARED = Config("server-prepared", definition(Kind.SERVER, prepare="build"), worktrees=WAYS)
GRACE = Config("server-grace", definition(Kind.SERVER, grace_ms=5_000), worktrees=WAYS, runs=True)
BOARD = Config("command", definition(Kind.COMMAND), worktrees=WAYS)
BOARD_REPEATS = Config("command-repeats", definition(Kind.COMMAND, repeatable=True), worktrees=WAYS)
BOARD_BECOMES = Config("command-becomes-lock", definition(Kind.COMMAND), ("a",), WAYS, other=definition())
GOVERNED = Config("lock-governed", definition(), governed=True, runs=True, commands=2)
WEB_GOVERNED = Config("server-governed", SERVER, worktrees=("/1",), governed=True)
POOL_GOVERNED = Config("pool-governed", definition(units=("0", "1")), governed=True, boots=True)
LOCK_LOST = Config("lock-lost", definition(), runs=True, lost=True, boots=True)
POOL_LOST = Config("pool-lost", definition(units=("0", "1")), ("a",), runs=True, lost=True)
WEB_LOST = Config("server-lost", SERVER, worktrees=("/1",), lost=True, boots=True)


def everything(name: str, of: Definition, agents: tuple[str, ...], ways: tuple[str, ...], other: Definition) -> Config:
    return Config(
        name, of, agents, ways, runs=True, handovers=True, attended=True, times=True, boots=True, lost=True, other=other
    )


EVERYTHING = [
    everything("every lock", definition(), ("a", "b"), ("-",), definition(units=("0", "1"))),
    everything("every pool", definition(units=("0", "1")), THREE, ("-",), definition()),
    everything(
        "every server", definition(Kind.SERVER, prepare="build", grace_ms=5_000), ("a", "b"), WAYS,
        definition(Kind.SERVER, start="other"),
    ),
    everything(
        "every server pool", msgspec.structs.replace(POOLED, revoke_grace_ms=5_000), THREE, WAYS, definition()
    ),
    everything("every command", definition(Kind.COMMAND), ("a", "b"), WAYS, SERVER),
]  # fmt: skip

SLICES = [each for each in [*globals().values()] if isinstance(each, Config)]
QUICK = [
    (LOCK, 8), (ATTENDED, 8), (POOL, 7), (TIMES, 5), (RUNS, 5), (WEB, 6), (WEB_POOL, 4), (PREPARED, 6), (GRACE, 4),
    (BOARD, 6), (BOARD_REPEATS, 6), (BOARD_BECOMES, 6), (LOCK_REDEFINED, 6), (BECOMES_LOCK, 4), (WEB_REDEFINED, 5),
    (LOCK_HANDED, 5), (POOL_HANDED, 4), (WEB_HANDED, 5), (LOCK_LOST, 4), (POOL_LOST, 6), (WEB_LOST, 6), (GOVERNED, 4),
    (WEB_GOVERNED, 4), (POOL_GOVERNED, 4),
]  # fmt: skip
