"""As a snapshot has them: tables and what is made of them are written as plain dictionaries, by their keys."""

from typing import Any, get_args, get_origin

import msgspec

from interlock.protocol.agents import Agent, Agents
from interlock.protocol.lease import Lease
from interlock.protocol.leases import EMPTY_LEASES, Leases
from interlock.protocol.letters import Letter, Letters
from interlock.protocol.resource_queue import EMPTY_QUEUE, Queue
from interlock.protocol.resource_ticket import Ticket
from interlock.protocol.table import EMPTY, Table


def to_plain(value: Any) -> Any:
    """For msgspec's `enc_hook`. Raises NotImplementedError for what nobody here has made."""
    match value:
        case Table():
            return value.as_dict()
        case Queue():
            return {ticket.request_id: ticket for ticket in value.values()}
        case Agents():
            return {agent.name: agent for agent in value.values()}
        case Letters():
            return {letter.id: letter for letter in value.values()}
        case Leases():
            return {lease.id: lease for lease in value.values()}
    raise NotImplementedError(type(value).__name__)


def from_plain(wanted: Any, value: Any) -> Any:
    """For msgspec's `dec_hook`. Raises msgspec.ValidationError where it is not that; NotImplementedError as above."""
    if get_origin(wanted) is Table:
        return Table(msgspec.convert(value, dict[get_args(wanted)])) if value else EMPTY  # type: ignore[misc] # known now
    if wanted is Queue:
        return Queue(msgspec.convert(value, dict[str, Ticket]).values()) if value else EMPTY_QUEUE
    if wanted is Agents:
        return Agents(msgspec.convert(value, dict[str, Agent]).values())
    if wanted is Letters:
        return Letters(msgspec.convert(value, dict[str, Letter]).values())
    if wanted is Leases:
        return Leases(msgspec.convert(value, dict[str, Lease]).values()) if value else EMPTY_LEASES
    raise NotImplementedError(str(wanted))
