"""The mail: inbox folders as the coordinator sees them. It says whose inbox has changed; what is written is up to the
adapter, which compares the folder with the inbox: a projection of the records needs no record of its own (ADR 4)."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from interlock.coordinator.journal import Staged
from interlock.coordinator.world import INBOX, REGISTRY
from interlock.protocol.outcome import Outcome
from interlock.protocol.registry import AgentUsesFiles


class NoFolder(Exception):
    """An agent's folder cannot be made; the text is one sentence."""


class Mail(Protocol):
    """Nothing here waits."""

    def changed(self, agent: str) -> None:
        """Its inbox, or whether it uses its folder, is not as it was."""

    def use(self, agent: str) -> str:
        """Make an agent's folder, with all that is in it; its path. Raises NoFolder."""


class NoMail:
    """A bus without folders."""

    def changed(self, agent: str) -> None:
        pass

    def use(self, agent: str) -> str:
        raise NoFolder(f"this bus has no folder for {agent}: use bus inbox")


def touched(address: str, outcome: Outcome[Any, Any], staged: Staged | None) -> Iterable[str]:
    """Agents whose inbox a decision that is durable has changed."""
    if not outcome.withdraw and (staged is None or not staged.letters) and address != REGISTRY:
        return (address.removeprefix(INBOX),) if address.startswith(INBOX) and outcome.events else ()
    return _touched(address, outcome, staged)


def _touched(address: str, outcome: Outcome[Any, Any], staged: Staged | None) -> Iterator[str]:
    if address.startswith(INBOX) and outcome.events:
        yield address.removeprefix(INBOX)
    for withdraw in outcome.withdraw:
        yield withdraw.to
    for event in outcome.events:
        if isinstance(event, AgentUsesFiles):
            yield event.name
    for agent, _ in staged.letters if staged is not None else ():
        yield agent
