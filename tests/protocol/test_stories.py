"""Stories: `at` lines are played, the indented lines are what the machine must answer.

    - what is kept    > what somebody hears    ! what is ordered    = how it stands

After a deliberate change run `REWRITE=1 pytest tests/protocol/test_stories.py`, then read the diff: commit it only if
you can say why every changed line is right.
"""

import os
from pathlib import Path

import pytest
from tests.protocol.player import Player, described, stands

STORIES = sorted(Path(__file__).with_name("stories").glob("*.txt"))


def play(story: str) -> str:
    """Play a story; its first line `resource KIND` says what it is about."""
    player, lines = Player(), list[str]()
    for line in story.splitlines():
        if line.startswith("  "):
            continue
        lines.append(line)
        if line.startswith("resource "):
            player = Player(line.split()[1])
        elif line.startswith("at "):
            lines += [f"  {each}" for text in described(player.play(line)) for each in text.splitlines()]
            lines.append(f"  = {stands(player.resource)}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    expected = path.read_text(encoding="utf-8")
    told = play(expected)
    if os.environ.get("REWRITE"):
        path.write_text(told, encoding="utf-8")
    assert told == expected


def test_there_are_stories() -> None:
    assert len(STORIES) >= 7
