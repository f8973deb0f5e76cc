"""The few parts of the standard library that a process of some milliseconds needs, without all that these import.

`json` imports re, and with it enum, functools and collections: twice as long as the interpreter takes for itself. What
does its work is C (`_json`), and is used here directly; an interpreter without it has the real one. Only the short way
of the command and the keeper import this; everything else says json, msgspec and contextlib.
"""

try:
    from _json import encode_basestring_ascii, make_scanner
except ImportError:
    import json

    make_scanner = None  # type: ignore[assignment,misc]  # the only way to say so

TYPE_CHECKING = False  # as typing has it, without its import
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any


class _Rules:
    """What json.loads has by default."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float  # NaN, Infinity


def _scanner() -> "tuple[Callable[[str], Any], Callable[[Any], str]]":
    """How to read and how to write, as this interpreter can."""
    if make_scanner is None:
        return json.loads, json.dumps
    scan = make_scanner(_Rules)  # type: ignore[arg-type]  # anything with these names will do

    def read(text: str) -> "Any":
        text = text.strip(" \t\r\n")
        try:
            value, end = scan(text, 0)
        except StopIteration as error:
            raise ValueError(f"no JSON at {error.value}") from None
        if end != len(text):
            raise ValueError(f"something stands behind the JSON, at {end}")
        return value

    return read, _written


def loads(data: bytes | str) -> "Any":
    """What json.loads says. Raises ValueError where it is no JSON."""
    return _read(data if isinstance(data, str) else data.decode("utf-8", "surrogatepass"))


def dumps(value: object) -> str:
    """What json.dumps says, of None, truth, numbers, texts, and lists and objects of them, in ASCII."""
    return _write(value)


def _written(value: object) -> str:
    if isinstance(value, str):
        text: str = encode_basestring_ascii(value)
        return text
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_written(str(name))}: {_written(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_written, value)) + "]"
    raise TypeError(f"{type(value).__name__} has no JSON")


class suppress:  # noqa: N801 - as contextlib has it
    """contextlib.suppress."""

    def __init__(self, *errors: type[BaseException]) -> None:
        self._errors = errors

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> bool:
        return kind is not None and issubclass(kind, self._errors)


_read, _write = _scanner()
