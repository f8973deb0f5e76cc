"""What is said on a stream door: lines with what they should be answered by, and whether an answer is one."""

from typing import Any, NamedTuple

import msgspec
from tests.fuzz.parsers import line as text_line
from tests.fuzz.values import AGENTS, RESOURCES, Garbage, is_going_down, type_of

from interlock.protocol.codes import Code, exit_code
from interlock.protocol.control import Answer, Control, Welcome
from interlock.protocol.envelope import BadEnvelope, Envelope, Hello, decode_line
from interlock.protocol.limits import FRAME_BYTES_MAX
from interlock.protocol.messages import FromBus, ToCoordinator

HEAVY = {"VERIFY", "BACKUP", "TAIL"}  # each reads the log: one in a while is enough
HEAVY_KEPT = 0.03
_MESSAGES, _CONTROLS, _ENVELOPE, _HELLO = (type_of(each) for each in (ToCoordinator, Control, Envelope, Hello))


class Wanted(NamedTuple):
    """What a line should be answered by. Args: how: "welcome", "unread" (no id is known) or "reply". id: to what."""

    how: str
    id: str = ""


class BadAnswer(Exception):
    """What came is no frame of the contract, or says that the bus itself has failed."""


def wanted(line: bytes) -> Wanted | None:
    """What the bus must answer to a line; None where it may say nothing: whoever follows the log hears what comes."""
    if not line.strip() or (b'"TAIL"' in line and b'"follow"' in line):
        return None
    try:
        said = decode_line(line)
    except BadEnvelope:
        return Wanted("unread")
    return Wanted("welcome") if isinstance(said, Hello) else Wanted("reply", said.id)


def check(frame: bytes) -> tuple[str, str]:
    """Look at one frame that came. Returns its kind and what it answers. Raises BadAnswer."""
    try:
        said = msgspec.json.decode(frame, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadAnswer(f"no JSON object ({error}): {frame[:200]!r}") from None
    if "welcome" in said:
        msgspec.convert(said["welcome"], Welcome)
        return "welcome", ""
    body = said.get("body")
    if not isinstance(body, dict) or not {"id", "from", "to", "at"} <= set(said):
        raise BadAnswer(f"no envelope: {frame[:200]!r}")
    _typed(body)
    if body["type"] == "REFUSED":
        code = body.get("code", "")
        if code not in Code.__members__ or said.get("exit") != exit_code(code):
            raise BadAnswer(f"a refusal with an unknown code or another's exit code: {frame[:200]!r}")
        if code == Code.INTERNAL:
            raise BadAnswer(f"INTERNAL: {frame[:300]!r}")
    answers = str(said.get("reply_to", ""))
    return ("unread" if not answers and body["type"] == "REFUSED" else "reply" if answers else "pushed"), answers


def make(garbage: Garbage, number: int, agent: str) -> bytes:
    """One line, without its newline; it never takes the bus down. Args: agent: who mostly speaks here."""
    made = _make(garbage, number, agent).replace(b"\n", b" ")[:FRAME_BYTES_MAX]  # a longer one would end the session
    return b'{"to": "supervisor", "body": {"type": "PING"}}' if is_going_down(made) else made


def _make(garbage: Garbage, number: int, agent: str) -> bytes:
    pick = garbage.random
    kind = pick.randrange(14)
    if kind == 0:
        return garbage.json({"hello": garbage.changed(garbage.of_type(_HELLO))})
    if kind == 1:
        return garbage.json({"hello": {"agent": agent, "notices": True}})
    if kind == 2:
        return garbage.octets()
    if kind == 3:
        return garbage.json(garbage.value())
    made = garbage.of_type(_ENVELOPE)
    made["from"] = agent if garbage.chance(0.9) else pick.choice(AGENTS)
    if garbage.chance(0.8):
        made["id"] = f"{pick.randrange(10**6):x}.{number}"
    for key in ("incarnation", "text", "message", "args", "body"):
        made.pop(key, None)
    _fill(garbage, made, kind)
    if garbage.chance(0.35):
        made = garbage.changed(made)
    data = garbage.json(made)
    return garbage.spoilt(data) if garbage.chance(0.2) else data


def _fill(garbage: Garbage, made: dict[str, Any], kind: int) -> None:
    """What the envelope says, and to whom."""
    if kind < 6:
        made["to"], made["body"] = "coordinator", garbage.of_type(_MESSAGES)
    elif kind < 9:
        made["to"], made["body"] = "supervisor", garbage.of_type(_CONTROLS)
        if made["body"]["type"] in HEAVY and not garbage.chance(HEAVY_KEPT):
            made["body"] = {"type": "PING"}
    elif kind == 9:
        made["to"], made["text"] = "coordinator", text_line(garbage).decode("utf-8", "surrogatepass")
    elif kind == 10:
        made["to"], made["args"] = "coordinator", text_line(garbage).decode("utf-8", "surrogatepass").split(" ")
    elif kind > 11:  # a lock is taken and given back, so that what follows meets every state
        made["to"], made["text"] = (
            "coordinator",
            f"{('REQUEST', 'RELEASE')[kind % 2]} {garbage.random.choice(RESOURCES[:12])}",
        )
    else:
        made["to"], made["message"] = garbage.random.choice(AGENTS), garbage.text()


def _typed(body: dict[str, Any]) -> None:
    for type_ in (FromBus, Answer):
        try:
            msgspec.convert(body, type_)
        except msgspec.ValidationError:
            continue
        return
    raise BadAnswer(f"of no type of the contract: {str(body)[:300]}")
