"""Authority: who may speak as an agent, and who may set policies and grant.

| `[bus] identity` | who says who it is | who has a capability |
|---|---|---|
| `"open"` | the sender itself | whom `[agents.NAME] allow` names |
| `"token"` | the token that it shows | whom its token allows it |

Of a token only a digest is kept, here and on disk. It is looked up anew with every message, so that one that is revoked
is over at once, in sessions too that were begun with it.
"""

import hashlib
import hmac
from collections.abc import Callable
from typing import Protocol

import msgspec

from interlock.coordinator.config import RESOURCE_CONTROL, Config
from interlock.coordinator.repositories import Stamp
from interlock.coordinator.session import Session
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol import control
from interlock.protocol.codes import Code
from interlock.protocol.control import Control
from interlock.protocol.messages import Refused

# What `bus doctor` asks, and `bus down`: whose socket it is may end its process as well.
_OF_THE_OWNER = control.AskHealth | control.Verify | control.AskStatus | control.AskAgents | control.GoDown


class Known(msgspec.Struct, frozen=True):
    """What is kept of an agent's token. Args: sha256: of the token, in hex. allow: its capabilities."""

    sha256: str
    allow: frozenset[str] = frozenset()


class Tokens(Protocol):
    """What the coordinator needs of the disk here. Each look is short and bounded."""

    def stamp(self) -> Stamp:
        """Changes when any token does."""

    def known(self) -> dict[str, Known]:
        """By agent. Raises ConfigError where that cannot be read."""


class NoTokens:
    """Tokens of a bus that has none."""

    def stamp(self) -> Stamp:
        return ()

    def known(self) -> dict[str, Known]:
        return {}


class Authority:
    """One per bus. Args: config: the present one. tokens: the disk."""

    def __init__(self, config: Callable[[], Config], tokens: Tokens) -> None:
        self._config = config
        self._tokens = tokens
        self._stamp: Stamp | None = None
        self._known: dict[str, Known] = {}
        self._problem = ""

    def by_token(self) -> bool:
        """Tokens say who is who; else names count by themselves."""
        return self._config().identity == "token"

    def why_not(self, session: Session, agent: str) -> Refused | None:
        """Why a session may not speak as an agent with what it shows; None where it may."""
        if not self.by_token() or self._shows_token_of(session, agent):
            return None
        how = f"a person runs bus token create {agent}, and BUS_TOKEN_FILE names the file that it writes"
        if self._problem:
            return Refused(Code.CAPABILITY_DENIED, f"nobody's token can be checked: {self._problem}")
        if not session.shown:
            return Refused(Code.CAPABILITY_DENIED, f"{agent} speaks here only with its token, and shows none: {how}")
        return Refused(Code.CAPABILITY_DENIED, f"that is not the token of {agent}, or it was revoked: {how}")

    def why_not_ask(self, session: Session, question: Control) -> Refused | None:
        """Why a session may not ask that of the bus itself; None where it may. A JOIN is judged by the name it gives.

        Whether the bus is well may be asked by whoever reaches its socket; through a folder only whether it is there.
        """
        if not self.by_token() or isinstance(question, control.Ping | control.JoinBus):
            return None
        if isinstance(question, _OF_THE_OWNER) and not session.is_file:
            return None
        agent = session.agent or self.agent_of(session)
        if agent:
            return self.why_not(session, agent)
        if session.nobody.code == Code.CAPABILITY_DENIED:
            return session.nobody
        how = "a person runs bus token create NAME, and BUS_TOKEN_FILE names the file that it writes"
        return Refused(Code.CAPABILITY_DENIED, f"this bus hears nobody without a token: {how}")

    def agent_of(self, session: Session) -> str:
        """Whose token a session shows, "" where it is nobody's, or names count here without one."""
        if not self.by_token() or not session.shown:
            return ""
        return next((agent for agent in self._look() if self._shows_token_of(session, agent)), "")

    def may_control(self, session: Session, agent: str) -> bool:
        """The agent may set policies and grant. Args: session: that it speaks through."""
        return self.is_controller(agent) and (not self.by_token() or self._shows_token_of(session, agent))

    def is_controller(self, agent: str) -> bool:
        """The agent has that capability, through whichever session it speaks."""
        if not self.by_token():
            return RESOURCE_CONTROL in self._config().allowed.get(agent, ())
        known = self._look().get(agent)
        return known is not None and RESOURCE_CONTROL in known.allow

    def how_to_control(self, agent: str) -> str:
        """What a person does so that the agent has it."""
        if self.by_token():
            return f"a person runs bus token revoke {agent}, then bus token create {agent} --allow {RESOURCE_CONTROL}"
        return f'a person allows it in bus.toml, [agents.{agent}] allow = ["{RESOURCE_CONTROL}"]'

    def _shows_token_of(self, session: Session, agent: str) -> bool:
        known = self._look().get(agent)
        return known is not None and hmac.compare_digest(known.sha256, session.shown)

    def _look(self) -> dict[str, Known]:
        """What is known now. Where it cannot be read nobody is let in: who was revoked shall not be."""
        stamp = self._tokens.stamp()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._known, self._problem = self._tokens.known(), ""
            except ConfigError as error:
                self._known, self._problem = {}, str(error)
        return self._known


def digest_of(token: str) -> str:
    """All that is kept of a token. It is random and long: a slow hash would add nothing. "" of none."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest() if token else ""
