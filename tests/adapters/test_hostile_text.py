"""What anybody may send is read in a time that grows as its length: each of these once took minutes, or hours.

None is timed: where one is not read in one go any more, the test does not end.
"""

from pathlib import Path

import pytest

from interlock.adapters.git import place_of
from interlock.coordinator.config import Config
from interlock.coordinator.repositories import declared
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.envelope import BadEnvelope, decode_line
from interlock.protocol.limits import FRAME_BYTES_MAX, REPOSITORY_CONFIG_BYTES_MAX
from interlock.protocol.post import sender_of


def test_a_line_with_a_string_that_nothing_ends() -> None:
    line = b"{" * 33 + b'"' + b'\\"' * (FRAME_BYTES_MAX // 2 - 20)
    with pytest.raises(BadEnvelope, match="nested deeper"):
        decode_line(line)


def test_brackets_in_strings_still_do_not_count_as_nesting() -> None:
    assert decode_line(b'{"text": "' + b'[{\\"' * 100 + b'"}')


def test_an_empty_file_of_many_lines() -> None:
    assert sender_of(b"\n" * 2_000_000, "x") == ""
    assert sender_of(b"\n \t From:  ann\n", "x") == "ann"


@pytest.mark.parametrize("line", ["[" + " " * 60_000, "[" * 60_000, " " * 60_000])
def test_a_repositorys_file_with_a_line_that_looks_like_a_table(line: str) -> None:
    toml = f'[resources.a]\nkind = "server"\nstart = """x\n{line}\n"""\n[resources.x]\nstarrt = 1\n'
    assert len(toml) < REPOSITORY_CONFIG_BYTES_MAX
    with pytest.raises(ConfigError, match=r"f:7: \[resources.x\] unknown key 'starrt'"):
        declared(toml.encode(), "f", "0" * 32, Config())


@pytest.mark.parametrize("config", ["\n" * 60_000, "[core]\nx\n" + "\n" * 60_000, "[core]\n" + "worktree\n" * 6_000])
def test_a_git_configuration_of_many_lines(tmp_path: Path, config: str) -> None:
    # given
    (tmp_path / "work").mkdir()
    (tmp_path / "work/.git").write_text("gitdir: ../git\n")
    (tmp_path / "git").mkdir()
    (tmp_path / "git/HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "git/config").write_text(config)
    # when
    place = place_of(str(tmp_path / "work"))
    # then
    assert place is not None
    assert not place.listed
