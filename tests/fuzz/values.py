"""Seeded garbage: values that break readers, and valid messages made from their types, one thing in them changed.

message type ──▶ valid frame ──▶ one field gone, other, twice, huge, deep ──▶ bytes ──▶ cut, flipped, repeated
"""

import json
import random
from typing import Any

from msgspec import inspect

INTEGERS = (0, 1, -1, 2, 7, 255, 65_536, 2**31, -(2**31), 2**53, 2**63 - 1, 2**63, -(2**63), 2**64, -(2**70), 10**30)
NUMBERS = ("1e400", "-0", "1.5", "1e-400", "9" * 400, "9" * 5_000, "0" * 9, "1E5", "0x10", "+1", "NaN", "Infinity")
PIECES = (
    "", " ", "\t", "\n", "\r\n", "\0",
    "\x1b[2J", "\x7f", "\u202e", "\u2028", "\ufeff", "é", "😀", "İ", "ß", "\u0301" * 9,
    "a", "-", "--", ".", "..", "/", "\\", "'", '"', "`", "$(true)", "%s%n", "{}", "{unit}", "|", ";", ",", ", 5m", "=",
    "machine/", "machine/a", "repository/", "../" * 5, "NULL", "CON", "a:b", "x" * 64, "x" * 65, "x" * 255, "y" * 1_100,
    "REQUEST", "RELEASE machine/r1", "GRANTED", "fence=", "fence=1", "99999999999999999999", "1e999", "coordinator",
    "supervisor", "all",
    "From: a", "To: b\n\n", "200ms", "1h30m", "-5m", "∞", "\ud800", "\udfff", "<!-- state: ", " -->",
)  # fmt: skip
AGENTS = tuple(f"fz{n}" for n in range(300))
RESOURCES = (*(f"machine/r{n}" for n in range(12)), "flat", "pool", "machine/flat", "nowhere", "")
_DOWN = "DOWN"  # it takes the bus down, as it should: the only message that is not sent


class Garbage:
    """Makes everything from one seed. Args: seed: the same one makes the same again."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.fences = [0, 1]

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def text(self) -> str:
        """Some pieces, one after the other; sometimes many, or one character very often."""
        pick = self.random
        if self.chance(0.02):
            return pick.choice(PIECES) * pick.choice((100, 5_000, 40_000))
        return "".join(pick.choice(PIECES) for _ in range(pick.choice((1, 1, 2, 3, 6))))

    def octets(self) -> bytes:
        """Bytes, mostly no UTF-8."""
        return self.random.randbytes(self.random.choice((1, 3, 20, 300)))

    def value(self, depth: int = 0) -> Any:
        """Any JSON value; rarely a very deep one."""
        pick = self.random
        kind = pick.randrange(7 if depth < 4 else 4)
        if kind == 0:
            return pick.choice((None, True, False))
        if kind == 1:
            return pick.choice(INTEGERS)
        if kind == 2:
            return pick.choice((0.5, 1e300, -1e-300))
        if kind == 3:
            return self.text()
        if kind == 4:
            return [self.value(depth + 1) for _ in range(pick.randrange(4))]
        if kind == 5 and depth == 0 and self.chance(0.2):
            return nested(pick.choice((31, 32, 33, 200, 500)), pick.choice("[{"))
        return {self.text(): self.value(depth + 1) for _ in range(pick.randrange(4))}

    # --- from the types -------------------------------------------------------------------------
    def of_type(self, type_: inspect.Type, name: str = "") -> Any:
        """A value that the type takes, plausible for a field of that name."""
        pick = self.random
        match type_:
            case inspect.StructType():
                return self.of_struct(type_)
            case inspect.UnionType(types=types):
                return self.of_type(pick.choice(types), name)
            case inspect.StrType():
                return self._word(name)
            case inspect.BoolType():
                return self.chance(0.5)
            case inspect.IntType():
                return pick.choice(self.fences) if name in {"fence", "under"} else pick.choice((0, 0, 1, 5, 1_000))
            case inspect.NoneType():
                return None
            case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
                return [self.of_type(item, name) for _ in range(pick.randrange(4))]
            case inspect.TupleType(item_types=items):
                return [self.of_type(each, name) for each in items]
            case inspect.DictType(key_type=key, value_type=of):
                return {str(self.of_type(key)): self.of_type(of) for _ in range(pick.randrange(3))}
            case inspect.EnumType(cls=cls):
                return pick.choice([each.value for each in cls])
            case _:
                return self.value(3)

    def of_struct(self, type_: inspect.StructType) -> dict[str, Any]:
        """A valid object; fields that have a default are sometimes left out."""
        made: dict[str, Any] = {}
        if type_.tag_field is not None:
            made[type_.tag_field] = type_.tag
        for field in type_.fields:
            if field.required or self.chance(0.5):
                made[field.encode_name] = self.of_type(field.type, field.name)
        return made

    def _word(self, name: str) -> str:
        pick = self.random
        if name in {"agent", "sender", "to", "holder", "by"}:
            return pick.choice(AGENTS)
        if name in {"resource", "key"}:
            return pick.choice(RESOURCES)
        if name in {"worktree", "cwd"}:
            return pick.choice(("-", "/tmp", "/", "relative", "/no/such"))
        if name in {"id", "ids", "reply_to", "request_id", "launch"}:
            return f"id-{pick.randrange(2_000)}"
        if name == "at":
            return pick.choice(("2026-01-01T00:00:00.000Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"))
        return pick.choice(("", "work", "try the page, 20m", "x" * 300))

    def changed(self, made: dict[str, Any]) -> dict[str, Any]:
        """One thing in an object is other than it should be, at whatever depth."""
        if not made:
            return {self.text(): self.value()}
        name = self.random.choice(list(made))
        inner = made[name]
        if isinstance(inner, dict) and self.chance(0.6):
            return {**made, name: self.changed(inner)}
        kind = self.random.randrange(6)
        if kind == 0:
            return {each: value for each, value in made.items() if each != name}
        if kind == 1:
            return {**made, self.text(): self.value()}
        if kind == 2:
            return {**made, name: self.random.choice(INTEGERS)}
        if kind == 3:
            return {**made, name: self.text()}
        return {**made, name: self.value()}

    # --- bytes ----------------------------------------------------------------------------------
    def spoilt(self, data: bytes) -> bytes:
        """Cut, flipped, repeated, spliced: what a broken disk or a hostile peer makes of it."""
        pick, spoilt = self.random, bytearray(data)
        for _ in range(pick.choice((1, 1, 1, 3))):
            at = pick.randrange(len(spoilt) + 1)
            kind = pick.randrange(7)
            if kind == 0 and at < len(spoilt):
                spoilt[at] ^= 1 << pick.randrange(8)
            elif kind == 1:
                del spoilt[at:]
            elif kind == 2:
                spoilt[at:at] = self.octets()
            elif kind == 3:
                spoilt[at : at + pick.randrange(20)] = b""
            elif kind == 4:
                spoilt[at:at] = spoilt[max(0, at - pick.randrange(60)) : at] * pick.choice((1, 2, 40))
            elif kind == 5:
                spoilt[at:at] = pick.choice(
                    (b'"', b"{", b"}", b"\\u", b"\xed\xa0\x80", b"\xff", b"\0", b"\r", b"\xc0\x80")
                )
            else:
                spoilt[at : at + 1] = pick.choice(NUMBERS).encode()
        return bytes(spoilt)

    def json(self, value: Any) -> bytes:
        """An object as bytes; sometimes with a key twice, sometimes with escapes and spaces."""
        data = json.dumps(value, ensure_ascii=self.chance(0.5)).encode("utf-8", "surrogatepass")
        if isinstance(value, dict) and value and self.chance(0.05):
            twice = self.random.choice(list(value))
            again = json.dumps({twice: self.value()}).encode("utf-8", "surrogatepass")
            data = data[:-1] + b", " + again[1:]
        return data


def nested(depth: int, bracket: str) -> Any:
    """A value so deep."""
    made: Any = 1
    for _ in range(depth):
        made = [made] if bracket == "[" else {"a": made}
    return made


def printable(data: bytes, most: int = 300) -> str:
    """For a report: what was sent, as Python writes it."""
    return repr(data if len(data) <= most else data[:most] + b"...") + (
        f" ({len(data)} bytes)" if len(data) > most else ""
    )


def type_of(type_: Any) -> inspect.Type:
    return inspect.type_info(type_)


def is_going_down(data: bytes) -> bool:
    """It may be the message that takes the bus down, as it should."""
    return _DOWN.encode() in data
