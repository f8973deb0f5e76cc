"""What a person is shown of a launch whose end nobody has proved."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.polling import until

from interlock.adapters.process import identify, marked
from interlock.adapters.traces import traces
from interlock.protocol.identity import Identity

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
LAUNCH = "run-7-traces"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that carries the launch's mark, with a secret among its arguments."""
    argv = [sys.executable, "-c", "import time; time.sleep(600)", "--token=secret"]
    found = subprocess.Popen(argv, env={**os.environ, "BUS_LAUNCH": f"outer:{LAUNCH}"})
    until(lambda: marked(LAUNCH))
    yield found
    found.kill()
    found.wait()


def identity() -> Identity:
    found = identify(os.getpid())
    assert found is not None
    return found


def gone() -> Identity:
    """A process that had our pid before us."""
    return msgspec.structs.replace(identity(), start_ticks=identity().start_ticks - 1)


def test_what_still_carries_the_mark_is_named_without_its_arguments(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    found = traces(LAUNCH, gone(), tmp_path / "none.jsonl")
    assert found.marked == (f"pid {sleeper.pid} ({os.path.basename(sys.executable)})",)
    assert "secret" not in repr(found)


def test_what_has_the_keepers_pid_now_is_said(tmp_path: Path) -> None:
    report = tmp_path / "none.jsonl"
    assert traces(LAUNCH, identity(), report).keeper == f"its keeper (pid {os.getpid()}) still lives"
    assert "is gone; that pid is another process's now (" in traces(LAUNCH, gone(), report).keeper
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    nobody = msgspec.structs.replace(identity(), pid=ended.pid)
    assert traces(LAUNCH, nobody, report).keeper.endswith("nobody has that pid now")
    elsewhere = msgspec.structs.replace(identity(), machine="another")
    assert traces(LAUNCH, elsewhere, report).keeper.endswith("cannot be seen from here")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([], "(report.jsonl) is gone or cannot be read"),
        (["up"], "does not say that it was let go"),
        (["up", "not_started"], "does not say that it was let go"),
        (["up", "go"], "was let go, and nothing of its end"),
        (["up", "go", "ended"], "was let go, and that its first process has ended"),
        (["up", "go", "ended", "gone"], "was let go, and that its whole tree has ended"),
    ],
)
def test_how_far_it_came_is_what_the_report_says(tmp_path: Path, lines: list[str], says: str) -> None:
    report = tmp_path / "report.jsonl"
    words = {
        "up": {"event": "up", "identity": msgspec.to_builtins(gone())},
        "not_started": {"event": "not_started"},
        "go": {"event": "go"},
        "ended": {"event": "ended", "code": 0, "signal": None},
        "gone": {"event": "gone"},
    }
    report.write_bytes(b"".join(msgspec.json.encode(words[line]) + b"\n" for line in lines))
    assert says in traces(LAUNCH, gone(), report).report
