"""Values of a TOML text: each of the type that is wanted, or one sentence with the file and the line to look at."""

import re
import tomllib
from typing import Any

from interlock.protocol.durations import parse_duration
from interlock.protocol.names import nearest

_MAY_BE_NOTHING = {"revoke_grace"}  # times that may be "0s"


class ConfigError(Exception):
    """One sentence: file, line, what is wrong, what would be right."""


def parse_toml(text: str, file: str) -> dict[str, Any]:
    """The table that a TOML text is.

    Args: text: its content. file: its path, for the sentences only.

    Raises: ConfigError: it is none.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"\(at line (\d+), column \d+\)", str(error))
        where = f"{file}:{line[1] if line else len(text.splitlines()) or 1}"
        raise ConfigError(f"{where}: not TOML: {error}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, tables a thousand deep
        raise ConfigError(
            f"{file}:1: not TOML that can be read: a number is too long, or it is nested too deep"
        ) from None


class Values:
    """Reads values out of parsed TOML, and knows how to say where something is wrong.

    Every method takes the table, the key in it, and the table's own full name (`where`); it raises ConfigError.
    """

    def __init__(self, text: str, file: str) -> None:
        self._lines = text.splitlines()
        self._file = file

    def known(self, table: dict[str, Any], keys: set[str], where: str) -> None:
        for key in table:
            if key in keys:
                continue
            if key == "spare":
                self.fail("spare is of the whole bus: it belongs under [bus]", where, key)
            close = nearest(key, keys)
            hint = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(sorted(keys))}"
            self.fail(f"unknown key {key!r}; {hint}", where, key)

    def table(self, table: dict[str, Any], key: str, where: str) -> dict[str, Any]:
        value = table.get(key, {})
        if not isinstance(value, dict):
            self.fail(f"{key!r} must be a table", where, key)
        return dict(value)

    def string(self, table: dict[str, Any], key: str, where: str) -> str:
        value = table.get(key, "")
        if not isinstance(value, str) or "\0" in value:
            self.fail(f"{key} must be a text", where, key)
        return str(value)

    def strings(self, table: dict[str, Any], key: str, where: str) -> list[str]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            self.fail(f'{key} must be a list of texts, such as ["0", "1"]', where, key)
        return list(value)

    def truth(self, table: dict[str, Any], key: str, where: str) -> bool:
        value = table.get(key, False)
        if not isinstance(value, bool):
            self.fail(f"{key} must be true or false", where, key)
        return bool(value)

    def duration(self, table: dict[str, Any], key: str, where: str, default: int) -> int:
        if key not in table:
            return default
        value = table[key]
        if key in _MAY_BE_NOTHING and value in ("0", "0s"):
            return 0
        ms = parse_duration(value) if isinstance(value, str) else None
        if ms is None:
            self.fail(f'{key} = {value!r} is no duration: write "200ms", "30s", "3m" or "1h30m"', where, key)
        return int(ms or 0)

    def fail(self, why: str, where: str, key: str) -> None:
        raise ConfigError(f"{self._file}:{self._line(where, key)}: {f'[{where}] ' if where else ''}{why}")

    def _line(self, where: str, key: str) -> int:
        """The line that a person should look at: the key inside its table, else the table, else the first."""
        where = where.replace(" ", "")
        inside, found = not where, 1
        for number, line in enumerate(self._lines, start=1):
            name = _heading(line)
            if name:
                inside = name == where or name.startswith(f"{where}.")
                if inside and name == where:
                    found = number
                if key and name.rpartition(".")[2] == key:
                    return number
            elif inside and key and re.match(rf"""\s*["']?{re.escape(key)}["']?\s*[=.]""", line):
                return number
        return found


def _heading(line: str) -> str:
    """The name of the table that a line begins, "" where it begins none. By hand: the line may be a stranger's."""
    word = line.strip()
    name, bracket, _ = word.lstrip("[").partition("]")
    return "".join(name.split()).replace('"', "").replace("'", "") if bracket and word.startswith("[") else ""
