"""Plays a territory in words: `ann acquires src/** a.py:1-9 shared ttl=1m wait=5m`, `ann returns L1`, `60s passes`.

Each line is a command; its answer, what others are told, and the state that follows are words too.
"""

from typing import Any

import msgspec

from interlock.protocol.answers import format_answer
from interlock.protocol.claim import claim_text, parse_claim
from interlock.protocol.durations import parse_duration
from interlock.protocol.identity import Identity
from interlock.protocol.messages import Refused, tag_of
from interlock.protocol.outcome import Now, fold
from interlock.protocol.resource_commands import AgentGone, LaunchGone, Tick
from interlock.protocol.territory import decide
from interlock.protocol.territory_commands import (
    Acquire,
    AdmitUnder,
    ProcessEnded,
    Renew,
    Return,
    RevokeLease,
    Split,
    Transfer,
)
from interlock.protocol.territory_events import TerritoryEvent
from interlock.protocol.territory_evolve import evolve
from interlock.protocol.territory_state import Territory, next_deadline


def process(pid: int) -> Identity:
    return Identity("machine", "boot", 1, pid, 1)


class Player:
    """One territory, one clock. `said` is the answer of the last line; `told` who heard what besides."""

    def __init__(self) -> None:
        self.territory = Territory("territory/t")
        self.seq, self.mono_ms, self.boot = 1, 0, "b"
        self.said: Any = None
        self.told: list[str] = []
        self.events: list[Any] = []
        self._id = 0
        self._said_ids: set[str] = set()

    def play(self, story: str) -> "Player":
        """Lines are divided by `;`."""
        for line in filter(None, map(str.strip, story.split(";"))):
            self._play(line)
        return self

    def text(self) -> str:
        return f"REFUSED {self.said.code}" if isinstance(self.said, Refused) else format_answer(self.said)

    def state(self) -> str:
        """`ann L1 src/**; (bob L3 src/a)`: in force, then who waits."""
        rows = [f"{each.agent} {each.id}{'!' if each.ending else ''} {self._claims(each)}" for each in self._held()]
        waits = [f"({each.agent} {each.id} {self._claims(each)})" for each in self.territory.waiting.values()]
        return "; ".join(rows + waits)

    def _held(self) -> list[Any]:
        return list(self.territory.held.values())

    def _claims(self, lease: Any) -> str:
        return " ".join(map(claim_text, lease.claims)) + (" shared" if lease.shared else "")

    def _play(self, line: str) -> None:
        words = line.split()
        if words[1:] == ["passes"] or words[1:] == ["of", "sleep"]:
            self.mono_ms += parse_duration(words[0]) or 0
            self._tell(Tick())
        elif words == ["reboot"]:
            self.boot, self.mono_ms = self.boot + "'", 0
            self._tell(Tick())
        else:
            self._tell(self._command(words))

    def _command(self, words: list[str]) -> Any:
        who, verb, rest = words[0], words[1], words[2:]
        options = dict(word.split("=", 1) for word in rest if "=" in word)
        flags = [word for word in rest if word in {"shared", "bound"}]
        plain = [word for word in rest if word not in flags and "=" not in word]
        self._id += 1
        id_ = options.get("id", f"m{self._id}")
        taken, self._said_ids = id_ in self._said_ids, {*self._said_ids, id_}
        ttl_ms = parse_duration(options["ttl"]) or 0 if "ttl" in options else 0
        match verb:
            case "acquires":
                return Acquire(
                    who, 1, id_, tuple(map(parse_claim, plain)), "shared" in flags, "x", ttl_ms,
                    options.get("name", ""), parse_duration(options["wait"]) or 0 if "wait" in options else 0,
                    process=process(int(options["pid"])) if "pid" in options else None, with_agent="bound" in flags,
                    again=taken,
                )  # fmt: skip
            case "renews":
                return Renew(who, id_, plain[0], ttl_ms)
            case "returns":
                return Return(who, id_, plain[0])
            case "transfers":
                return Transfer(who, id_, plain[0], plain[1], 1, because="why" if who == "person" else "")
            case "splits":
                return Split(who, id_, plain[0], plain[1], 1, tuple(map(parse_claim, plain[2:])), ttl_ms, again=taken)
            case "revokes":
                return RevokeLease(who, id_, plain[0], "because")
            case "runs":
                lease = self.territory.lease(plain[1])
                fence = int(options.get("fence", lease.fence if lease is not None else 0))
                return AdmitUnder(who, id_, plain[1], fence, plain[0], process(99), "make")
            case "ends":
                return LaunchGone(who, plain != ["unproved"], 0, "seen")
            case "leaves":
                return AgentGone(who, 1, "it left")
            case "dies":
                return ProcessEnded(process(int(options["pid"])), who)
        raise AssertionError(words)

    def _tell(self, command: Any) -> None:
        now = Now(1_000_000 + self.mono_ms, self.boot, self.mono_ms, self.seq)
        outcome = decide(self.territory, command, now)
        assert fold(evolve, self.territory, outcome.events) == outcome.state, "replayed it is the same"
        again = msgspec.json.decode(msgspec.json.encode(outcome.events), type=tuple[TerritoryEvent, ...])
        assert again == outcome.events
        self.territory, self.seq = outcome.state, self.seq + len(outcome.events)
        self.events = list(outcome.events)
        answers = [send.body for send in outcome.outbox if send.reply_to]
        self.said = answers[0] if answers else None
        assert len(answers) <= 1
        self.told = [f"{send.to}< {tag_of(send.body)} {getattr(send.body, 'lease', '')}" for send in outcome.outbox
                     if not send.reply_to]  # fmt: skip
        deadline = next_deadline(self.territory, self.boot)
        ends = [each.until for each in (*self.territory.held.values(), *self.territory.waiting.values()) if each.until]
        assert (deadline is not None) == bool(ends)
        assert deadline is None or deadline.mono_ms <= min(each.mono_ms for each in ends), "nothing comes late"
