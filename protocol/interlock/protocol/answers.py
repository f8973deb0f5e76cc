"""The answers' text: what a model reads after its command. One line first, always `WORD resource …`."""

from interlock.protocol.durations import format_age
from interlock.protocol.lease_answers import lease_ended, lease_queued, leased
from interlock.protocol.lease_messages import Leased, LeaseEnded, LeaseQueued
from interlock.protocol.messages import (
    Acked,
    Admitted,
    Cancelled,
    Down,
    Extended,
    FromBus,
    Granted,
    Joined,
    Left,
    PolicyIs,
    Queued,
    Refused,
    Released,
    Revoked,
    Sent,
    StillUsing,
    Text,
)
from interlock.protocol.task_answers import assigned, task_is
from interlock.protocol.task_messages import Assigned, TaskIs
from interlock.protocol.visible import beginning, unhidden
from interlock.protocol.words import quote


def format_answer(body: FromBus) -> str:
    """Write what the coordinator says. The first line alone is enough to act on."""
    match body:
        case Granted(together=several) if several:
            each = ", ".join(f"{one.resource}{_reach(one)}{_sentence(one.note)}" for one in several)
            return f"GRANTED {body.resource} - {each}"
        case Granted():
            return f"GRANTED {body.resource}{_reach(body)}{_sentence(body.note)}"
        case Queued():
            return f"QUEUED {body.resource} position {body.position} - {_why_queued(body)}"
        case StillUsing(resource, _, _, waiting, answer_ms, last):
            end = f"; no answer within {format_age(answer_ms)} ends your hold" if last else ""
            agents = "1 agent waits" if waiting == 1 else f"{waiting} agents wait"
            return f"STILL USING? {resource} - {agents}: bus extend {resource}, or bus release {resource}{end}"
        case Revoked(resource=resource, why=why, log=log, tail=tail):
            return f"REVOKED {resource} {unhidden(why)}{_log(log, tail)}"
        case Down(resource, _, _, why, log, tail):
            choice = f"it is still yours: bus restart {resource}, or bus release {resource}"
            return f"DOWN {resource} {unhidden(why)} - {choice}{_log(log, tail)}"
        case Released(resource):
            return f"RELEASED {resource}"
        case Extended(resource, _, _, for_ms):
            return f"EXTENDED {resource}" + (f" for {_left(for_ms)}" if for_ms else "")
        case Cancelled(resource, _, _, why):
            return f"CANCELLED {resource}" + (f" {unhidden(why)}" if why else "")
        case Admitted(resource, _, fence):
            return f"ADMITTED {resource} (fence {fence})" if resource else "ADMITTED"
        case PolicyIs():
            return _policy(body)
        case Joined(agent, _, bound_to, _, note, folder):
            bound = f"bound to {bound_to}" if bound_to else f"not bound{f': {note}' if note else ''}"
            return f"JOINED {agent} - {unhidden(bound)}" + (f"\nfolder: {unhidden(folder)}" if folder else "")
        case Left(agent, why):
            return f"LEFT {agent} - {unhidden(why)}"
        case Sent(to, id_, state):
            return f"SENT {to} {id_} ({state})"
        case Acked(ids, unknown):
            return f"ACKED {' '.join(ids)}" + (f" (unknown: {' '.join(unknown)})" if unknown else "")
        case Leased():
            return leased(body)
        case LeaseQueued():
            return lease_queued(body)
        case LeaseEnded():
            return lease_ended(body)
        case Assigned():
            return assigned(body)
        case TaskIs():
            return task_is(body)
        case Refused(code, why):
            return f"REFUSED {code} {why}"
        case Text(text):
            return text


def _reach(granted: Granted) -> str:
    parts = [f" {granted.url}"] if granted.url else []
    if granted.unit:
        parts.append(f" unit {granted.unit}")
    if granted.worktree != "-":
        parts.append(f" from {quote(unhidden(granted.worktree))}")
    parts.append(f" (fence {granted.fence}")
    if granted.for_ms:
        parts.append(f", yours as you said for {_left(granted.for_ms)}")
    if granted.running_since_ms:
        at = f" at commit {granted.commit}" if granted.commit else ""
        parts.append(f", running since {format_age(granted.running_ms)}{at}")
    if granted.shared:
        parts.append(", under the hold you already have")
    return "".join(parts) + ")"


def _why_queued(queued: Queued) -> str:
    if queued.together:
        why = "; ".join(f"{one.resource}: {_in_the_way(one, part=True)}" for one in queued.together)
        return f"{why}; do not use, start or stop any of them; next: bus wait {queued.resource}"
    return f"{_in_the_way(queued)}; do not use, start or stop it; next: bus wait {queued.resource}"


def _in_the_way(queued: Queued, *, part: bool = False) -> str:
    match queued.state:
        case "preparing":
            why = "being prepared for you"
        case "preparing_other":
            why = f"being prepared for {queued.holder}" if queued.holder else "what stood there is being stopped"
        case "recovery_required":
            why = f"stopped until a person confirms: bus recover {queued.resource}"
        case "draining":
            why = "the last owner's processes are being ended"
        case "grace":
            why = "the last owner was revoked, and has a moment to save what it needs"
        case "controller":
            why = "its controller has not granted it yet"
        case "blocked":
            why = "nobody has it"
        case _ if queued.holder:
            what = f' for "{one_line(queued.holder_purpose)}"' if queued.holder_purpose.strip() else ""
            left = f", said {_left(queued.holder_left_ms)} more" if queued.holder_left_ms > 0 else ""
            why = f"held by {queued.holder} since {format_age(queued.held_ms)}{what}{left}"
        case "free" if part and queued.position == 1:
            why = "free"
        case _:
            why = "others are before you"
    return f"{why}{_sentence(queued.note)}"


def _policy(policy: PolicyIs) -> str:
    if not policy.controller:
        return f"POLICY {policy.resource} epoch {policy.epoch} - none any more: the coordinator grants by itself"
    who = f"{policy.controller} grants to {', '.join(policy.participants)}"
    waits = f"; {len(policy.blockers)} of their commands run without it: it is granted once they have ended"
    return f"POLICY {policy.resource} epoch {policy.epoch} - {who}{waits if policy.blockers else ''}"


def _left(ms: int) -> str:
    """A time that is left, rounded up: what was said a moment ago reads as it was said."""
    return format_age(ms + 999)


def _sentence(note: str) -> str:
    return f"; {note}" if note else ""


def _log(log: str, tail: tuple[str, ...]) -> str:
    lines = "".join(f"\n  | {unhidden(line)}" for line in tail)
    return lines + (f"\n  log: {unhidden(log)}" if log else "")


def one_line(text: str, characters_max: int = 80) -> str:
    """What another agent wrote, short, on one line, and with nothing that moves the cursor."""
    joined = "".join(c if c.isprintable() else " " for c in " ".join(text.split()))
    return beginning(joined, characters_max)
