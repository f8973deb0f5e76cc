"""The processes of a race: one that does not end is ended and says where it stood, and what broke is told whole."""

import os
import time
from pathlib import Path

import pytest
from tests.races import processes
from tests.races.processes import NO_END, call, fork, tracebacks


def test_a_command_that_does_not_end_is_ended_and_says_where_it_stood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs_here() -> int:
        os.write(1, b"begun\n")
        time.sleep(600)  # polls: it is what hangs
        return 0

    monkeypatch.setattr(processes, "bus", lambda words, first, out, err: fork(hangs_here, out=out, err=err))
    err = os.open(tmp_path / "err", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    ended = call(["wait", "x"], err=err, limit_s=0.5)
    os.close(err)
    said = tracebacks((tmp_path / "err").read_text().splitlines())
    assert ended.code < 0
    assert ended.said in {"begun\n", ""}  # the machine may be slow
    assert said[0].startswith(f"{NO_END}bus wait x")


def test_a_traceback_is_told_whole_and_what_others_say_is_not_part_of_it() -> None:
    lines = ["a was told: no", "Traceback (most recent call last):", '  File "x.py", line 1', "    f()",
             "OSError: no room", "b was told: no", "Traceback (most recent call last):", "KeyError: 1"]  # fmt: skip
    told = tracebacks(lines)
    assert [each.splitlines()[-1].strip() for each in told] == ["OSError: no room", "KeyError: 1"]
    assert "x.py" in told[0]
    assert tracebacks(["all is well"]) == []
