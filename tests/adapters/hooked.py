"""A git repository for tests of hooks, and a bus that says what a test wants said of leases."""

import contextlib
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.end_to_end.playground import BUS, WAIT_S, Done

QUIET = {
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@x",
    "GIT_COMMITTER_NAME": "t", "GIT_COMMITTER_EMAIL": "t@x",
}  # fmt: skip


class Repo:
    """A repository. Args: folder: absolute; made here. home: BUS_HOME of what is called in it."""

    def __init__(self, folder: Path, home: Path, *init: str) -> None:
        self.folder = folder
        self.home = home
        self.environment = {
            "PATH": f"{BUS.parent}:{os.environ['PATH']}", "HOME": str(home.parent), "BUS_HOME": str(home), **QUIET,
        }  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "--initial-branch=main", *init)

    def git(self, *words: str, cwd: Path | None = None, ok: bool = True, **env: str) -> Done:
        """Git itself, as a user calls it."""
        done = subprocess.run(
            ["git", *words], cwd=cwd or self.folder, env={**self.environment, **env}, capture_output=True, text=True,
            timeout=2 * WAIT_S, check=False, errors="surrogateescape", stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert not ok or done.returncode == 0, done
        return Done(done.returncode, done.stdout, done.stderr)

    def write(self, path: str, text: str, cwd: Path | None = None) -> None:
        """A file, staged."""
        file = (cwd or self.folder) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.git("--literal-pathspecs", "add", "--", path, cwd=cwd)

    def commit(self, path: str, text: str, cwd: Path | None = None, *, ok: bool = True, **env: str) -> Done:
        """A file, committed."""
        self.write(path, text, cwd)
        return self.git("commit", "-q", "-m", path.encode("ascii", "replace").decode(), cwd=cwd, ok=ok, **env)


class SaysLeases:
    """A supervisor as far as hooks and drift ask one: it knows who asks by BUS_AGENT, and the leases it is given."""

    def __init__(self, home: Path) -> None:
        home.mkdir(mode=0o700, exist_ok=True)
        self.leases: list[dict[str, Any]] = []
        self.agents: list[dict[str, Any]] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.hangs = False
        self._free = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(home / "bus.sock"))
        self._listener.listen(16)
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def lease(self, agent: str, *claims: str, **more: Any) -> None:
        """A lease in force from now on."""
        number = f"L{len(self.leases) + 1}"
        known = {
            "lease": number,
            "agent": agent,
            "claims": list(claims),
            "shared": False,
            "left_s": 90,
            "state": "held",
        }
        self.leases.append({**known, "purpose": "", "parent": "", "worktree": "", **more})

    def close(self) -> None:
        """Its thread ends before its descriptor is free: else it would go on accepting for whoever gets that next."""
        self._free.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join(WAIT_S)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as stream, contextlib.suppress(OSError):
            agent = ""
            for line in stream:
                if self.hangs:
                    self._free.wait(WAIT_S)
                    return
                said = json.loads(line)
                if "hello" in said:
                    agent = said["hello"]["agent"]
                    why = "" if agent else "the bus does not know who you are: bus join NAME"
                    answer: dict[str, Any] = {"welcome": {"agent": agent, "why": why}}
                else:
                    self.asked.append((agent, said["body"]))
                    answer = {"reply_to": said["id"], "body": self._body(said["body"])}
                stream.write(json.dumps(answer).encode() + b"\n")
                stream.flush()

    def _body(self, question: dict[str, Any]) -> dict[str, Any]:
        match question["type"]:
            case "TERRITORY":
                return {"type": "TERRITORY_REPLY", "map": {"territory": "territory/x", "leases": self.leases}}
            case "AGENTS":
                return {"type": "AGENTS_REPLY", "agents": self.agents}
            case "RECORD_COMMIT":
                return {"type": "OK"}
        return {"type": "REFUSED", "code": "BAD_MESSAGE", "why": "no such question: see bus help all"}


@contextlib.contextmanager
def says_leases(home: Path) -> Iterator[SaysLeases]:
    """One that is gone at the end."""
    bus = SaysLeases(home)
    try:
        yield bus
    finally:
        bus.close()
