"""An agent that only reads and writes files: what it posts, what it finds in its folder, and how it waits for that."""

import json
import os
from pathlib import Path
from typing import Any

from tests.end_to_end.playground import Bus
from tests.polling import until


class FolderUser:
    """One agent's folder. Args: name: of the agent, which has joined with --files."""

    def __init__(self, bus: Bus, name: str) -> None:
        self.name = name
        self.folder = bus.home / "inboxes" / name

    def post(self, content: str | bytes, name: str, *, into: Path | None = None) -> None:
        """Write it to tmp/, and rename it into place."""
        beside = self.folder / "tmp" / name
        beside.write_bytes(content if isinstance(content, bytes) else content.encode())
        beside.rename((into or self.folder / "out") / name)

    def answer(self, name: str) -> Any:
        """The frame that answers a posted file."""
        return json.loads(self.find("new", f"answer.{name}.*.json").read_text())

    def letter(self, kind: str) -> Path:
        """The file of the first unread message of that type."""
        return self.find("new", f"*.{kind}.json")

    def find(self, where: str, pattern: str) -> Path:
        """The first file of that pattern; waits for it."""
        until(lambda: [*(self.folder / where).glob(pattern)], lambda: f"no {pattern} in {where}/, but {self.names()}")
        return min((self.folder / where).glob(pattern))

    def gone(self, path: Path) -> None:
        """Wait until a file is not there any more."""
        until(lambda: not os.path.lexists(path), lambda: f"{path} stays: {self.names()}")

    def names(self) -> dict[str, list[str]]:
        return {each.name: sorted(os.listdir(each)) for each in self.folder.iterdir() if each.is_dir()}


def joined(bus: Bus, name: str) -> FolderUser:
    """A new one."""
    bus.ok("join", name, "--files")
    return FolderUser(bus, name)
