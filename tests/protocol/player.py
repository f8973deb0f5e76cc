"""Plays one resource from lines that a person can read. The stories and the table speak this language:

at 3m ann REQUEST loop /w1 what for, 20m     any message; (no wait), (again), (sent 2m), (as cyd,dan),
                                             (using ID) and (under FENCE) may stand before it
at 3m ann runs REQUEST loop /w1              `bus run` asks
at 3m ann admits CMD | ann withdraws | ann's wrapper is gone       … and goes on, each for its last request;
                                             behind CMD may stand digest=D, inside=LAUNCH, fence=N
at 3m ann is heard | ann is gone | ann's former self is gone
at 3m keeper up | step done | step fails WHY | step fails unproved WHY | step never started | step is interrupted
at 3m port held by WHO | port free | server dies | server leaves a child | server is lost
at 3m command l1 ends 0 | command l1 is lost | command l1 never began
at 3m tick | restart | boot | stop servers | person confirms | person revokes [UNIT] [of HOLDER] | define KIND | forget
at 3m gate says ctl for ann,bob epoch 1 [blocked l8,l9] | gate says nobody epoch 2 | ctl grants ann [EPOCH]
at 3m database lost | database lost, a server lives | database lost, a command lives
"""

import re
from dataclasses import dataclass

import msgspec

from interlock.protocol.answers import format_answer
from interlock.protocol.definition import CommandDefinition, Definition, Kind, ServerDefinition, server_of
from interlock.protocol.durations import parse_duration
from interlock.protocol.grammar import parse, split_resource
from interlock.protocol.identity import Identity
from interlock.protocol.messages import Cancel, Extend, Grant, Handover, Request, tag_of
from interlock.protocol.outcome import Now, Outcome, fold
from interlock.protocol.plain import from_plain, to_plain
from interlock.protocol.policy import Policy
from interlock.protocol.resource import decide
from interlock.protocol.resource_commands import (
    AbortStep,
    Admit,
    AgentGone,
    Define,
    Doubt,
    Forget,
    Go,
    Govern,
    Heard,
    LaunchGone,
    LaunchUp,
    Mail,
    MailBody,
    PortBlocked,
    Recover,
    ResourceCommand,
    Resume,
    Revoke,
    RunCommand,
    RunStep,
    ServerGone,
    StepFailure,
    StepResult,
    StopServers,
    Tick,
    WrapperGone,
)
from interlock.protocol.resource_events import AbsentLookedAt, Armed, ResourceEvent
from interlock.protocol.resource_evolve import evolve
from interlock.protocol.resource_state import Launch, Remains, Resource, Server, StepKind, Unit, unit_of

WALL_MS = 1_700_000_000_000
KEY = "machine/loop"
WEB = ServerDefinition("npm run dev", url="http://localhost:7080", ports=(7080,))
PAGES = ServerDefinition(
    "serve {unit}",
    url="http://x:{unit}",
    health="http://x:{unit}/ok",
    unit_ports=("{unit}",),
    env=(("PORT", "{unit}"),),
)
BOARD = CommandDefinition("./off", "./flash", "./ping")
DEFINITIONS = {
    "lock": Definition(),
    "pool": Definition(units=("0", "1")),
    "server": Definition(Kind.SERVER, server=WEB),
    "other-server": Definition(Kind.SERVER, server=msgspec.structs.replace(WEB, start="npm run other")),
    "servers": Definition(Kind.SERVER, units=("0", "1"), server=WEB),
    "pages": Definition(Kind.SERVER, units=("7081", "7082"), server=PAGES),
    "prepared": Definition(Kind.SERVER, server=msgspec.structs.replace(WEB, prepare="npm ci")),
    "board": Definition(Kind.COMMAND, command=BOARD),
    "boards": Definition(Kind.COMMAND, units=("0", "1"), command=BOARD),
    "board-repeats": Definition(Kind.COMMAND, command=msgspec.structs.replace(BOARD, repeatable=True)),
    "other-board": Definition(Kind.COMMAND, command=msgspec.structs.replace(BOARD, prepare="./flash --other")),
    "only-verify": Definition(Kind.COMMAND, command=CommandDefinition(verify="./ping")),
    "only-stop": Definition(Kind.COMMAND, command=CommandDefinition(stop="./off")),
    "only-prepare": Definition(Kind.COMMAND, command=CommandDefinition(prepare="./flash")),
}


def time_of(word: str) -> int:
    return int(word) if word.isdigit() else parse_duration(word) or 0


class Player:
    """One resource, its clock, and what the world outside would remember: ids, incarnations, launches."""

    def __init__(self, kind: str = "lock") -> None:
        definition = DEFINITIONS[kind]
        units = tuple(Unit(name) for name in definition.units)
        self.resource = Resource(KEY, definition, units=units)
        self.seq = 1
        self.at_ms = 0
        self.boot = 1
        self.booted_ms = 0
        self.incarnations: dict[str, int] = {}
        self.last_id: dict[str, str] = {}
        self.launches = 0
        self.worktrees: dict[str, str] = {}
        self.journal: list[ResourceEvent] = []
        self.began = self.resource

    def play(self, line: str) -> Outcome[Resource, ResourceEvent]:
        """Play one `at …` line; the outcome is folded, and must replay to itself, through JSON too."""
        _, when, said = line.split(maxsplit=2)
        at_ms = self.at_ms = time_of(when)
        if said == "boot":
            self.boot, self.booted_ms = self.boot + 1, at_ms
        if said in {"restart", "boot"}:
            self.resource = msgspec.json.decode(
                msgspec.json.encode(self.resource, enc_hook=to_plain), type=Resource, dec_hook=from_plain
            )
        now = Now(WALL_MS + at_ms, f"boot{self.boot}", at_ms - self.booted_ms, self.seq)
        outcome = decide(self.resource, self.command(said), now)
        events = msgspec.json.decode(msgspec.json.encode(outcome.events), type=list[ResourceEvent])
        assert fold(evolve, self.resource, events) == outcome.state
        self.journal += events
        assert fold(evolve, self.began, self.journal) == outcome.state
        self.worktrees |= {order.unit: order.worktree for order in outcome.steps if isinstance(order, RunStep)}
        self.resource = outcome.state
        self.seq += len(events)
        return outcome

    def command(self, said: str) -> ResourceCommand:
        match said.split():
            case ["tick"]:
                return Tick()
            case ["restart" | "boot"]:
                return Resume()
            case ["stop", "servers"]:
                return StopServers()
            case ["database", *_]:
                return Doubt("the database was lost", {"": self._remains(said)})
            case ["person", "confirms"]:
                return Recover(f"m{self.seq}", "person")
            case ["person", "revokes", *which]:
                holder = which[which.index("of") + 1] if "of" in which else ""
                unit = which[0] if which and which[0] != "of" else ""
                return Revoke(f"m{self.seq}", "person", "the demo begins", unit, holder)
            case ["define", kind]:
                return Define(DEFINITIONS[kind])
            case ["gate", "says", *words]:
                return gate_says(words)
            case ["forget"]:
                return Forget()
            case ["command", launch, "ends", code]:
                return LaunchGone(launch, True, int(code), "its tree is gone")
            case ["command", launch, "never", "began"]:
                return LaunchGone(launch, True, None, "it was not admitted, and never began")
            case ["command", launch, "is", "lost"]:
                return LaunchGone(launch, False, None, "its keeper died without a word")
            case ["keeper" | "step" | "port" | "server", *_]:
                return self._of_the_world(said)
            case [agent, "is", "heard"]:
                return Heard(agent)
            case [agent, "is", "gone"]:
                self.incarnations[agent] = self.incarnations.get(agent, 1) + 1
                return AgentGone(agent, self.incarnations[agent] - 1, "its process is gone")
            case [agent, "former", "self", "is", "gone"]:
                agent = agent.removesuffix("'s")
                return AgentGone(agent, self.incarnations[agent] - 1, "its process is gone")
            case [agent, "wrapper" | "program", "is", "gone"]:
                return WrapperGone(self.last_id[agent.removesuffix("'s")])
        return self._of_an_agent(said)

    def _remains(self, said: str) -> Remains:
        self.launches += 1
        launch, now = f"l{self.launches}", keeper(self.launches)
        if "command" in said:
            return Remains("held by ann", None, {launch: Launch(launch, now, "make", 0)})
        return Remains("held by ann", Server(launch, now, "/w1", WEB) if "server" in said else None)

    def _of_an_agent(self, said: str) -> ResourceCommand:
        agent, _, text = said.partition(" ")
        match = re.match(r"(?:\((no wait|again|sent \w+|as [\w,]+|using \w+|under \d+)\) )?(runs |attends )?", text)
        assert match is not None
        how, run, text = match[1] or "", match[2] == "runs ", text[match.end() :]
        id_ = self.last_id[agent] if how == "again" else f"{agent}{self.seq}"
        if text == "withdraws":
            return self._mail(agent, id_, Cancel("loop", self.last_id[agent]))
        if text.startswith("admits "):
            held = unit_of(self.resource, agent, run=True) or unit_of(self.resource, agent)
            fence = held.fence if held is not None else 999
            self.launches += 1
            words = text.removeprefix("admits ").split()
            command = " ".join(word for word in words if "=" not in word)
            more = dict(word.split("=") for word in words if "=" in word)
            inside = tuple(more["inside"].split(",")) if "inside" in more else ()
            return Admit(
                agent, id_, int(more.get("fence", fence)), f"l{self.launches}", keeper(self.launches), command,
                more.get("digest", ""), inside, names_of(how),
            )  # fmt: skip
        if text.startswith("grants "):
            whose, *epoch = text.removeprefix("grants ").split()
            grant = Grant(self.last_id.get(whose, whose), int(epoch[0]) if epoch else 0)
            return Mail(agent, 1, id_, grant, "loop", may_control=agent in {"ctl", "boss"})
        body = parse(text)
        if isinstance(body, Request):
            self.last_id[agent] = id_
            changes = {"run": run, "queue": how != "no wait", "process": keeper(self.seq) if match[2] else None}
            if how.startswith(("using", "under")):
                changes |= {"ticket": how[6:]} if how[:5] == "using" else {"under": int(how[6:])}
            body = msgspec.structs.replace(body, **changes)
        elif isinstance(body, Extend) and split_resource(body.purpose)[0] == "loop":
            body = Extend("loop", split_resource(body.purpose)[1], body.time_ms)
        assert isinstance(body, MailBody)
        sent = WALL_MS + time_of(how.split()[1]) if how.startswith("sent") else 0
        return msgspec.structs.replace(self._mail(agent, id_, body, sent), also=names_of(how))

    def _mail(self, agent: str, id_: str, body: MailBody, sent: int = 0) -> Mail:
        heir = self.incarnations.get(body.agent, 1) if isinstance(body, Handover) else 0
        return Mail(agent, self.incarnations.get(agent, 1), id_, body, "loop", sent, heir)

    def _of_the_world(self, said: str) -> ResourceCommand:
        unit = next((u for u in self.resource.units if u.step), self.resource.units[0])
        number = unit.step.number if unit.step is not None else 0
        launch = unit.step.launch if unit.step is not None else ""
        log, tail = "/logs/loop.log", ("Error: it broke",)
        match said.split():
            case ["keeper", "up"]:
                self.launches += 1
                return LaunchUp(unit.name, number, f"s{self.launches}", keeper(self.launches))
            case ["step", "done"]:
                server = None
                if unit.step is not None and unit.step.kind is StepKind.START:
                    assert unit.step.keeper is not None, "the keeper is not up yet"
                    definition = server_of(self.resource.definition, unit.name) or WEB
                    server = Server(
                        launch, unit.step.keeper, self.worktrees[unit.name], definition, "c0ffee", WALL_MS + self.at_ms
                    )
                return StepResult(unit.name, number, server)
            case ["step", "is", "interrupted"]:
                return StepFailure(unit.name, number, "nobody knows how it ended", proved=False, interrupted=True)
            case ["step", "is", "interrupted", "by", "a", "boot"]:
                return StepFailure(unit.name, number, "nobody knows how it ended", interrupted=True)
            case ["step", "fails", "unproved", *why]:
                return StepFailure(unit.name, number, " ".join(why), proved=False)
            case ["step", "fails", *why]:
                return StepFailure(unit.name, number, " ".join(why), log=log, tail=tail)
            case ["step", "never", "started"]:
                return StepFailure(unit.name, number, "the keeper ended before GO", never_started=True)
            case ["port", "held", "by", *who]:
                return PortBlocked(unit.name, number, f"port 7080 is held by {' '.join(who)}")
            case ["port", "free"]:
                return PortBlocked(unit.name, number, "")
        unit = next((u for u in self.resource.units if u.server is not None), unit)
        launch = unit.server.launch if unit.server is not None else "s0"
        match said.split():
            case ["server", "dies"]:
                return ServerGone(unit.name, launch, "it exited with code 1", True, log=log, tail=tail)
            case ["server", "leaves", "a", "child"]:
                return ServerGone(unit.name, launch, "its leader ended, a child lives", False, alive=True)
            case ["server", "is", "lost"]:
                return ServerGone(unit.name, launch, "its keeper died without a word", False)
        raise AssertionError(f"nobody knows how to play {said!r}")


def names_of(how: str) -> tuple[str, ...]:
    """As whom an agent counts besides: `(as ann,bob)`."""
    return tuple(how.removeprefix("as ").split(",")) if how.startswith("as ") else ()


def gate_says(words: list[str]) -> Govern:
    """`ctl for ann,bob epoch 1 blocked l8,l9`, or `nobody epoch 2`."""
    said = dict(zip(words[1::2], words[2::2], strict=True))
    epoch = int(said["epoch"])
    policy = Policy(epoch, words[0], tuple(said["for"].split(","))) if "for" in said else None
    return Govern(policy, epoch, tuple(said["blocked"].split(",")) if "blocked" in said else ())


def keeper(number: int) -> Identity:
    return Identity("m", "boot1", 1, 4000 + number, number)


# --- what came of it, in words --------------------------------------------------------------
def kept(outcome: Outcome[Resource, ResourceEvent]) -> list[str]:
    return [
        str(event.__struct_config__.tag) for event in outcome.events if not isinstance(event, Armed | AbsentLookedAt)
    ]


def heard(outcome: Outcome[Resource, ResourceEvent]) -> list[str]:
    """Who hears what: `ann GRANTED` a direct answer, `ann< GRANTED` news for an inbox, `ann/run< …` for a wrapper."""
    out = []
    for send in outcome.outbox:
        mark = "" if send.reply_to else "/run<" if send.run else "<"
        code = getattr(send.body, "code", "")
        out.append(f"{send.to}{mark} {tag_of(send.body)}" + (f" {code}" if code else ""))
    return out


def ordered(outcome: Outcome[Resource, ResourceEvent]) -> list[str]:
    out = []
    for order in outcome.steps:
        match order:
            case RunStep(kind=kind, worktree=worktree, server=server, launch=launch):
                where = server.worktree if server is not None and kind is StepKind.STOP else worktree
                out.append(f"{kind} {where}" + (f" adopting {launch}" if launch else ""))
            case RunCommand(kind=kind, worktree=worktree, launch=launch):
                out.append(f"{kind} {worktree}" + (f" adopting {launch}" if launch else ""))
            case Go():
                out.append("go")
            case AbortStep():
                out.append("abort")
    return out


def described(outcome: Outcome[Resource, ResourceEvent]) -> list[str]:
    """The outcome as the indented lines of a story."""
    lines = []
    for event in outcome.events:
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        shown = [str(fields[name]) for name in ("agent", "kind", "why") if fields.get(name)]
        fence = [f"(fence {fields['fence']})"] if fields.get("fence") else []
        if not isinstance(event, Armed | AbsentLookedAt):
            lines.append(" ".join(["-", str(event.__struct_config__.tag), *shown, *fence]))
    for send in outcome.outbox:
        whose = f"the wrapper of {send.to}" if send.run else send.to if send.reply_to else f"{send.to}'s inbox"
        lines.append(f"> {whose}: {format_answer(send.body)}")
    lines += [f"! {each}" for each in ordered(outcome)]
    return lines


def stands(resource: Resource) -> str:
    """How it stands: `held ann; free [bob cyd (absent)]`."""
    units = [f"{u.state} {u.ticket.agent}" if u.ticket is not None else str(u.state) for u in resource.units]
    queue = [f"{ticket.agent}{' (absent)' if ticket.absent else ''}" for ticket in resource.queue.values()]
    return "; ".join(units) + (f" [{' '.join(queue)}]" if queue else "")


# --- tables -------------------------------------------------------------------------------
@dataclass(frozen=True)
class Row:
    """`given` are lines without their `at`, with `; ` between them; `orders` is looked at where it is given."""

    name: str
    given: str
    when: str
    then: str
    heard_by: str
    after: str
    kind: str = "lock"
    orders: str | None = None


def played(*lines: str, kind: str = "lock") -> Player:
    player = Player(kind)
    for line in lines:
        for each in filter(None, line.split("; ")):
            player.play(f"at {each}")
    return player


def seen(row: Row) -> tuple[str, ...]:
    player = played(row.given, kind=row.kind)
    outcome = player.play(f"at {row.when}")
    seen = (" ".join(kept(outcome)), ", ".join(heard(outcome)), stands(player.resource))
    return seen if row.orders is None else (*seen, ", ".join(ordered(outcome)))


def expected(row: Row) -> tuple[str, ...]:
    return (row.then, row.heard_by, row.after) + (() if row.orders is None else (row.orders,))
