"""Uninstalling: what the bus made goes, and nothing else, wherever BUS_HOME leads."""

from pathlib import Path

from interlock.adapters.folders import Folders
from interlock.adapters.paths import Home
from interlock.adapters.uninstalling import remove_home

OURS = (
    "bus.db", "bus.db-wal", "bus.db.aside-20260101T000000-wal", "bus.lock", "bus.toml", "bus.down", "trusted.json",
    "log/supervisor.log", "log/supervisor.log.1", "log/web-3-0a1b2c.log", "launches/run-7-0a1b2c.jsonl",
    "shared-resources/.numbers", "shared-resources/gpu.md", "tmux/0123456789ab", "tmux/0123456789ab.control",
    "tokens/.known.json", "tokens/.tmp-0a1b", "tokens/ann",
)  # fmt: skip
NOT_OURS = (
    "bus.png", "bus.txt", "log/mine.log", "log/2026/january.log", "launches/rockets.jsonl", "shared-resources/notes.md",
    "tmux/tmux.conf", "inboxes/mail/new/letter", "inboxes/list.txt", "tokens/notes",
)  # fmt: skip


TOKEN = f"bus_{'x' * 43}\n"


def test_in_a_folder_that_somebody_uses_besides_their_files_stay(tmp_path: Path) -> None:
    # given: the user's own home, say
    home = Home(tmp_path / "home")
    home.create()
    for name in (*OURS, *NOT_OURS):
        path = home.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text({"gpu.md": "", "ann": TOKEN}.get(path.name, "precious"))
    Folders(home.root).create("ann")
    # when
    removed = remove_home(home)
    # then
    left = {str(path.relative_to(home.root)) for path in home.root.rglob("*") if path.is_file()}
    assert left == set(NOT_OURS)
    assert not (home.root / "inboxes/ann").exists()
    assert home.root / "log" not in removed


def test_a_home_of_its_own_is_gone_altogether(tmp_path: Path) -> None:
    # given
    home = Home(tmp_path / "home")
    home.create()
    for name in OURS:
        path = home.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TOKEN if path.name == "ann" else "")
    Folders(home.root).create("ann")
    # when
    remove_home(home)
    # then
    assert not home.root.exists()
