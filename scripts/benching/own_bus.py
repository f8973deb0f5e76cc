"""A bus of the bench's own, in a folder of its own: started as anybody starts one, and stopped whatever happens."""

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

ROOT = Path(__file__).parents[2]
BUS = str(ROOT / ".venv" / "bin" / "bus")
END_S_MAX = 30.0


class OwnBus:
    """Args: home: its BUS_HOME, in a folder that exists. configuration: its bus.toml."""

    def __init__(self, home: Path, configuration: str = "") -> None:
        self.home = home
        self.pid = 0
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BUS_")}
        self.environment = {**kept, "BUS_HOME": str(home), "BUS_AUTOSTART": "0"}
        home.mkdir(mode=0o700, exist_ok=True)
        if configuration:
            (home / "bus.toml").write_text(configuration)

    @property
    def socket(self) -> str:
        return str(self.home / "bus.sock")

    def __enter__(self) -> Self:
        try:
            self.up()
        except BaseException:
            self.say("down", check=False)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def up(self) -> None:
        done = self.say("--json", "up")
        self.pid = int(json.loads(done.stdout)["pid"])
        self._process = psutil.Process(self.pid)

    def say(self, *words: str, check: bool = True, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
        """One command of this bus. Raises RuntimeError where it must not fail and does."""
        done = subprocess.run(
            [BUS, *words], env=self.environment, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=120, check=False,
        )  # fmt: skip
        if check and done.returncode:
            raise RuntimeError(f"bus {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def down(self) -> None:
        """In order; what does not end by itself is killed, by its identity."""
        if not self.pid:
            return
        try:
            self.say("down", "--stop-servers", check=False)
            self._process.wait(END_S_MAX)
        except psutil.NoSuchProcess:
            pass
        except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
            self._process.kill()
        self.pid = 0
