"""What lies beside a lost journal, for tests: state files, and launches whose keepers live."""

from typing import Any

from tests.coordinator.bus import process

from interlock.coordinator.config import parse_config
from interlock.coordinator.states import StateFacts, Survivor
from interlock.protocol.limits import NUMBERS_RESERVED
from interlock.protocol.resource_state import Ticket, Unit, UnitState

R = NUMBERS_RESERVED
SERVER = parse_config('[resources.web]\nstart = "run"\nports = [7080]\n', "bus.toml")
DEFINITION = SERVER.resources["machine/web"]


def facts(key: str = "machine/r", seq: int = 7, bus: str = "b1", **rest: Any) -> StateFacts:
    return StateFacts(bus, key, seq, R, 1_700_000_000_000, **rest)


def file(*all_of_them: StateFacts | None) -> dict[str, StateFacts | None]:
    return {f"machine/r{n}" if each is None else each.key: each for n, each in enumerate(all_of_them)}


ALIVE = Survivor("web-3-aa", process(), "machine/web")
POOL = parse_config('[resources.pages]\nunits = ["0", "1"]\nstart = "run {unit}"\n', "bus.toml")
PAGES = POOL.resources["machine/pages"]
PAGE = Survivor("pages-9-cc", process(), "machine/pages")  # its keeper is of old: it does not say its unit
RUN = Survivor("run-9-dd", process(), "machine/pages")


def held(name: str = "", **rest: Any) -> Unit:
    ticket = Ticket("m1", "ann", 1, 1, "/w1", "try\nit", "web", 0)
    return Unit(name, UnitState.HELD, ticket, 5, **rest)
