"""What an exhibit looks at on a bus in memory."""

from typing import Any

from tests.coordinator.bus import Bus, Client

from interlock.protocol.resource_state import Ticket, Unit, UnitState

KEY = "machine/r"
MINUTE_S = 60.0


async def supervise(client: Client, **ask: Any) -> dict[str, Any]:
    """A question to the bus itself; its answer."""
    return await client.ask(ask, to="supervisor")


def units(bus: Bus, key: str = KEY) -> tuple[Unit, ...]:
    return bus.supervisor.world.resources[key].units


def holders(bus: Bus, key: str = KEY) -> list[str]:
    """Who has it, in the order of its units."""
    return [unit.ticket.agent for unit in units(bus, key) if unit.ticket and unit.state is UnitState.HELD]


def queue(bus: Bus, key: str = KEY) -> list[str]:
    """Who waits, in order."""
    waiting: list[Ticket] = list(bus.supervisor.world.resources[key].queue.values())
    return [ticket.agent for ticket in waiting]


async def unread(client: Client) -> list[str]:
    """The types of what its inbox holds."""
    return [each["body"]["type"] for each in (await supervise(client, type="INBOX"))["messages"]]
