"""Forgetting a repository: what is on record of its resources goes, unless something of it is in use."""

from interlock.coordinator.supervisor import Supervisor
from interlock.protocol.codes import Code
from interlock.protocol.control import ForgetReply
from interlock.protocol.messages import Refused
from interlock.protocol.names import short_name
from interlock.protocol.resource_commands import Forget


def forget(supervisor: Supervisor, repository: str) -> ForgetReply | Refused:
    """Drop the records of a repository's resources. Args: repository: its id."""
    resources = supervisor.world.resources
    keys = [key for key in resources if key.startswith(f"repository/{repository}/")]
    busy = [short_name(key) for key in keys if not resources[key].is_idle()]
    if busy:
        why = f"{', '.join(busy[:3])} of it is held, waited for or still runs: end that first, see bus status"
        return Refused(Code.RESOURCE_BUSY, why)
    for key in keys:
        supervisor.tell(key, Forget())
    return ForgetReply(tuple(keys))
