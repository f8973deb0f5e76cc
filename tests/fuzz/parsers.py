"""The pure readers under garbage: each may say no in the one way that its callers expect, and nothing else."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from tests.fuzz.values import Garbage, printable, type_of

from interlock.adapters import git, launch_result
from interlock.coordinator import records, state_text
from interlock.coordinator.config import Config, parse_config
from interlock.coordinator.naming import No
from interlock.coordinator.reading import read
from interlock.coordinator.repositories import declared
from interlock.coordinator.states import StateFacts
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.durations import parse_duration
from interlock.protocol.envelope import BadEnvelope, Envelope, decode_line, read_wire_time
from interlock.protocol.grammar import VERBS, BadText, format_message, parse
from interlock.protocol.messages import ToCoordinator
from interlock.protocol.names import key_of_state_file, why_not_agent, why_not_resource
from interlock.protocol.post import read_post, sender_of

BUS_TOML = """[bus]
poll_every = "3m"
hosts = ["claude"]
spare = ["watchman"]
[resources.server]
kind = "server"
start = "npm run dev -- --port {unit}"
units = ["7081", "7082"]
url = "http://localhost:{unit}"
health = "http://localhost:{unit}/healthz"
ports = ["{unit}"]
env = { LOG_LEVEL = "debug" }
[resources.board]
kind = "command"
prepare = "true"
step_timeout = "2m"
repeatable = true
[resources.gpu]
units = ["0", "1"]
"""
REPORT = b"""{"event": "up", "identity": {"machine": "m", "boot": "b", "pid_namespace": 1, "pid": 4, "start_ticks": 5}}
{"event": "go"}
{"event": "started", "leader": null}
{"event": "ended", "code": 1, "signal": null, "left": 2}
{"event": "gone", "spared": [{"pid": 4, "command": "watchman"}]}
"""
POST = b"From: ann\nTo: coordinator\nId: id-1\n\nREQUEST machine/a - why, 5m\n"
GIT_CONFIG = b'[core]\n\tbare = false\n\tworktree = ../x\n[remote "origin"]\n\turl = a\n'
_MESSAGES, _ENVELOPE = type_of(ToCoordinator), type_of(Envelope)
_FACTS, _RECORD = type_of(StateFacts), type_of(records.Record)


class Parser(NamedTuple):
    """Args: make: an input. read: what it goes through. says_no: how that may refuse it."""

    make: Callable[[Garbage], Any]
    read: Callable[[Any], object]
    says_no: tuple[type[Exception], ...] = ()


def line(garbage: Garbage) -> bytes:
    """A verb's text with something wrong in it, or not."""
    words = [
        garbage.random.choice((*VERBS, "request", "")),
        *(garbage.text() for _ in range(garbage.random.randrange(5))),
    ]
    return " ".join(words).encode("utf-8", "surrogatepass")


def envelope(garbage: Garbage) -> bytes:
    made = garbage.of_type(_ENVELOPE)
    made["body"] = garbage.of_type(_MESSAGES)
    data = garbage.json(garbage.changed(made) if garbage.chance(0.7) else made)
    return garbage.spoilt(data) if garbage.chance(0.4) else data


def _spoilt(data: bytes) -> Callable[[Garbage], bytes]:
    return lambda garbage: garbage.spoilt(data)


def toml(garbage: Garbage) -> bytes:
    """The file with a value replaced, a key added, or bytes spoilt."""
    if garbage.chance(0.4):
        return garbage.spoilt(BUS_TOML.encode())
    lines = BUS_TOML.splitlines()
    at = garbage.random.randrange(len(lines))
    key = lines[at].partition("=")[0] or "x"
    with contextlib.suppress(ValueError):
        lines[at] = f"{key} = {msgspec.json.encode(garbage.value()).decode()}"
    if garbage.chance(0.3):
        lines.insert(at, f"{garbage.text()} = 1")
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _changed(type_: Any, wrap: Callable[[bytes], bytes] = bytes) -> Callable[[Garbage], bytes]:
    def make(garbage: Garbage) -> bytes:
        made = garbage.of_type(type_)
        data = wrap(garbage.json(garbage.changed(made) if garbage.chance(0.7) else made))
        return garbage.spoilt(data) if garbage.chance(0.4) else data

    return make


def _round_trip(data: bytes) -> None:
    message = parse(data.decode("utf-8", "surrogatepass"))
    again = parse(format_message(message))
    assert again == message, f"{message} became {again}"


def _envelope(data: bytes) -> None:
    said = decode_line(data)
    if isinstance(said, Envelope):
        read_wire_time(said.at)
        msgspec.json.encode(read(said))


def _replayed(data: bytes) -> None:
    """As `Journal._replay` does, had somebody made the hash fit: it may refuse, it may not crash otherwise."""
    records.decode(data)


def _text(data: Any) -> str:
    return str(data)


def _git(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "work").mkdir()
        (place / "git").mkdir()
        (place / "work/.git").write_bytes(data if data[:1] == b"g" else b"gitdir: ../git\n")
        (place / "git/HEAD").write_bytes(b"ref: refs/heads/main\n")
        (place / "git/config").write_bytes(data)
        git.place_of(str(place / "work"))


def _report(data: bytes) -> None:
    for each in data.split(b"\n"):
        launch_result.decode(each)
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        launch_result.read_result(Path(file.name))


def _state(data: bytes) -> None:
    state_text.read(data)
    state_text.is_ours(data)


def _names(text: str) -> None:
    for each in (why_not_agent, why_not_resource, key_of_state_file, parse_duration, read_wire_time):
        each(text)


PARSERS = {
    "grammar": Parser(line, _round_trip, (BadText, UnicodeDecodeError)),
    "envelope": Parser(envelope, _envelope, (BadEnvelope, No, BadText)),
    "line": Parser(_spoilt(b'{"hello": {"agent": "a", "incarnation": 1, "cwd": "/tmp"}}'), decode_line, (BadEnvelope,)),
    "post": Parser(_spoilt(POST), lambda data: (sender_of(data, "x"), read_post(data, "a--b", "")), (BadEnvelope,)),
    "bus.toml": Parser(toml, lambda data: parse_config(data.decode(), "bus.toml"), (ConfigError, UnicodeDecodeError)),
    "repository's bus.toml": Parser(
        toml, lambda data: declared(data, "bus.toml", "0" * 32, Config()), (ConfigError, UnicodeDecodeError)
    ),
    "state file": Parser(_changed(_FACTS, lambda data: b"<!-- state: " + data + b" -->\n"), _state),
    "report": Parser(_spoilt(REPORT), _report),
    "record": Parser(_changed(_RECORD), _replayed, (msgspec.MsgspecError, UnicodeDecodeError)),
    "names": Parser(Garbage.text, _names),
    "git": Parser(lambda garbage: garbage.spoilt(garbage.random.choice((GIT_CONFIG, b"gitdir: ../git\n"))), _git),
}


def sweep(name: str, seed: str, inputs: int) -> Iterator[str]:
    """Give a parser so many inputs. Yields what went wrong."""
    parser, garbage = PARSERS[name], Garbage(f"{seed}/{name}")
    for number in range(inputs):
        made = parser.make(garbage)
        try:
            parser.read(made)
        except parser.says_no:
            pass
        except Exception as error:
            shown = printable(made if isinstance(made, bytes) else made.encode("utf-8", "surrogatepass"))
            yield f"{name}: input {number} of seed {seed}: {type(error).__name__}: {error}\n    {shown}"
