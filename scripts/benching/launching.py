"""A helper: this script again in a process of its own, with another first word. Asked by lines, answers with JSON."""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

BENCH = str(Path(__file__).parents[1] / "bench.py")


class Failed(Exception):
    """A helper could not do what it was asked; the text says what it met."""


class Helper:
    """Args: words: of its command line. Ends with the block, whatever it does."""

    def __init__(self, *words: str) -> None:
        self._words = words

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, BENCH, *self._words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            start_new_session=True,  # Ctrl-C is ours to hear
        )  # fmt: skip
        try:
            self._answer()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, line: str) -> dict[str, Any]:
        """Raises Failed, with what the helper met."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"failed": f"the helper {self._words[0]} ended"}
        if "failed" in answer:
            raise Failed(answer["failed"])
        return answer


def answer(**facts: Any) -> None:
    """The helper's side: one answer. The first one says that it is ready."""
    print(json.dumps(facts), flush=True)
