"""What is declared in a story: two configurations, between which it can change, and the keys in them."""

import msgspec

from interlock.coordinator.config import RESOURCE_CONTROL, Config
from interlock.protocol.definition import CommandDefinition, Definition, Kind, ServerDefinition

LOCK, POOL, WEB = "machine/lock", "machine/pool", "machine/web"
PAGES, BOARD = "machine/pages", "machine/board"  # a pool of servers, and one that commands make
TIMES = Definition(poll_ms=20_000, claim_ms=15_000, reservation_ms=10_000, time_max_ms=60_000)
CONFIG = Config(
    poll_every=20_000, claim=15_000, reservation=10_000, time_max=60_000, keep=0,
    allowed={"a": frozenset({RESOURCE_CONTROL})},
    resources={
        LOCK: TIMES,
        POOL: msgspec.structs.replace(TIMES, units=("0", "1")),
        WEB: msgspec.structs.replace(
            TIMES, kind=Kind.SERVER, server=ServerDefinition("serve", "http://x", prepare="make")
        ),
        PAGES: msgspec.structs.replace(
            TIMES, kind=Kind.SERVER, units=("0", "1"), server=ServerDefinition("serve {unit}", "http://x:{unit}")
        ),
        BOARD: msgspec.structs.replace(TIMES, kind=Kind.COMMAND, command=CommandDefinition("off", "flash", "ping")),
    },
)  # fmt: skip


OTHER = msgspec.structs.replace(CONFIG, resources={
    LOCK: msgspec.structs.replace(TIMES, units=("0", "1")),
    POOL: msgspec.structs.replace(TIMES, units=("1",)),
    WEB: msgspec.structs.replace(TIMES, kind=Kind.SERVER, server=ServerDefinition("serve --other", "http://x")),
    PAGES: msgspec.structs.replace(
        TIMES, kind=Kind.SERVER, units=("1", "2"), server=ServerDefinition("serve {unit}", "http://x:{unit}")
    ),
    BOARD: msgspec.structs.replace(TIMES, kind=Kind.COMMAND, command=CommandDefinition("off", "flash -v", "ping")),
})  # fmt: skip
