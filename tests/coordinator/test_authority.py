"""Authority: whom a session may speak as, and who may control a resource, in the open and with tokens."""

import pytest
from tests.coordinator.bus import FakeCaller

from interlock.coordinator.authority import Authority, Known, digest_of
from interlock.coordinator.config import parse_config
from interlock.coordinator.repositories import Stamp
from interlock.coordinator.session import Session
from interlock.coordinator.toml_values import ConfigError

CONTROL = frozenset({"resource.control"})


class Shelf:
    """Tokens as a table. Args: of: agent → its token."""

    def __init__(self, **of: str) -> None:
        self.entries = {agent: Known(digest_of(token), CONTROL if agent == "boss" else frozenset())
                        for agent, token in of.items()}  # fmt: skip
        self.changes = 0
        self.is_broken = False
        self.reads = 0

    def stamp(self) -> Stamp:
        return (self.changes,)

    def known(self) -> dict[str, Known]:
        self.reads += 1
        if self.is_broken:
            raise ConfigError("tokens/.known.json: no list of tokens")
        return self.entries


class Door:
    def write(self, data: bytes) -> None: ...

    def backlog(self) -> int:
        return 0

    def idle(self) -> None: ...

    def close(self) -> None: ...


def session(token: str = "") -> Session:
    made = Session(FakeCaller(), Door())
    made.proof = made.shown = digest_of(token)
    return made


OPEN = parse_config('[agents.boss]\nallow = ["resource.control"]\n', "f")
TOKEN = parse_config('[bus]\nidentity = "token"\n[agents.ann]\nallow = ["resource.control"]\n', "f")


@pytest.mark.parametrize(
    ("token", "agent", "speaks", "controls"),
    [
        ("b", "boss", True, True),
        ("a", "ann", True, False),  # what bus.toml allows a name is nothing that anybody could not say
        ("a", "boss", False, False),
        ("b", "ann", False, False),
        ("", "boss", False, False),
        ("x", "boss", False, False),
        ("b", "nobody", False, False),
    ],
)
def test_with_tokens_an_agent_is_who_shows_its_token_and_may_what_that_allows(
    token: str, agent: str, speaks: bool, controls: bool
) -> None:
    authority = Authority(lambda: TOKEN, Shelf(boss="b", ann="a"))
    refused = authority.why_not(session(token), agent)
    assert (refused is None, authority.may_control(session(token), agent)) == (speaks, controls)
    assert refused is None or f"bus token create {agent}" in refused.why


def test_in_the_open_names_are_believed_and_the_configuration_allows() -> None:
    shelf = Shelf(ann="a")
    authority = Authority(lambda: OPEN, shelf)
    assert authority.why_not(session(), "boss") is None
    assert authority.may_control(session(), "boss")
    assert not authority.may_control(session("a"), "ann")
    assert authority.agent_of(session("a")) == ""
    assert shelf.reads == 0


def test_tokens_are_read_again_only_when_they_have_changed_and_then_count_at_once() -> None:
    shelf = Shelf(boss="b")
    authority, live = Authority(lambda: TOKEN, shelf), session("b")
    assert all(authority.why_not(live, "boss") is None for _ in range(5))
    assert shelf.reads == 1
    # when
    shelf.entries, shelf.changes = Shelf(boss="other").entries, 1
    # then
    assert authority.why_not(live, "boss") is not None
    assert not authority.may_control(live, "boss")


def test_where_the_tokens_cannot_be_read_nobody_is_let_in() -> None:
    shelf = Shelf(boss="b")
    authority, live = Authority(lambda: TOKEN, shelf), session("b")
    assert authority.may_control(live, "boss")
    shelf.is_broken, shelf.changes = True, 1
    refused = authority.why_not(live, "boss")
    assert refused is not None
    assert "no list of tokens" in refused.why
    assert not authority.may_control(live, "boss")
