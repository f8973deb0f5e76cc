"""Checks of the supervisor's process: who holds the lock, whether it answers, and what it left in its log."""

import json
import os
import stat
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import version
from typing import Any

from interlock.adapters.doctor.scene import Finding, Scene, is_stopped
from interlock.adapters.homes import SOCKET_PATH_BYTES_MAX

LOG_BYTES_READ = 256 * 1024  # the end of it
RECENT_S = 24 * 3600
WORDS_MAX = 160  # characters of a log's error that are shown


def supervisor(scene: Scene) -> Iterator[Finding]:
    """It answers, or there is none: what lies between is wrong."""
    home, pid = scene.home, scene.lock_pid
    if scene.asked is not None:
        here, there = version("interlock"), scene.asked.health["version"]
        if here != there:
            what = f"the supervisor (pid {scene.asked.health['pid']}) is version {there}, and this command is {here}"
            yield Finding("version", what, "bus down && bus up")
        for sentence in scene.asked.health["frozen"]:
            yield Finding("frozen", sentence.partition(":")[0], "bus down && bus up")
        return
    if "sandbox" in scene.silent:
        yield Finding("supervisor", scene.silent, "allow it in the settings of what runs this command")
    elif pid and is_stopped(pid):
        yield Finding("supervisor", f"the supervisor (pid {pid}) is stopped (SIGSTOP or Ctrl-Z)", f"kill -CONT {pid}")
    elif pid and not os.path.lexists(home.socket()):
        what = f"a supervisor (pid {pid}) holds {home.lock}, but its socket {home.socket()} is gone"
        yield Finding("supervisor", what, f"kill -TERM {pid}; bus up")
    elif pid:
        what = f"a supervisor (pid {pid}) holds {home.lock}, but does not answer ({scene.silent or 'nobody listens'})"
        yield Finding("supervisor", what, f"kill -TERM {pid}; bus up")
    elif scene.silent:
        yield Finding("supervisor", scene.silent, "bus up")


def taken_down(scene: Scene) -> Iterator[Finding]:
    if scene.asked is None and scene.home.down.exists():
        yield Finding("down", "the bus was taken down with bus down, and no command starts it by itself", "bus up")


def sockets(scene: Scene) -> Iterator[Finding]:
    """The socket is one, and stands where nobody else can put one."""
    path = scene.home.socket()
    try:
        found = os.lstat(path)
    except OSError:
        found = None
    if found is not None and (not stat.S_ISSOCK(found.st_mode) or found.st_uid not in {os.geteuid(), 0}):
        yield Finding("socket", f"{path} is not a socket of yours", f"rm {path}")
    if path.parent == scene.home.root:
        return
    try:
        place = os.lstat(path.parent)
    except OSError:
        return
    if not stat.S_ISDIR(place.st_mode) or place.st_uid != os.geteuid() or place.st_mode & 0o077:
        what = (
            f"{scene.home.root} is too long for a socket (over {SOCKET_PATH_BYTES_MAX} bytes), and {path.parent}, used "
            "instead, is not a folder of yours alone"
        )
        yield Finding("socket", what, f"rm -r {path.parent}")


def log_errors(scene: Scene) -> Iterator[Finding]:
    """Errors of the last day; what has been mended by a later start is counted too, for nobody may have seen it."""
    path = scene.home.logs / "supervisor.log"
    errors = [entry for entry in _recent(path, scene.now_s) if entry.get("level") in {"error", "critical"}]
    dead = [entry for entry in errors if entry.get("event") == "dead_letter"]
    if dead:
        last = dead[-1].get("actor")
        what = f"{len(dead)} messages met a fault of the bus in the last day and were not done, the last to {last}"
        yield Finding("dead_letters", what, f"grep dead_letter {path}")
    counted = Counter(str(entry.get("event")) for entry in errors if entry not in dead)
    for event, count in counted.most_common(5):
        last = next(entry for entry in reversed(errors) if entry.get("event") == event)
        why = str(last.get("why") or str(last.get("exception", "")).strip().rpartition("\n")[2])[:WORDS_MAX]
        times = "once" if count == 1 else f"{count} times"
        what = f"the log has {event} {times} in the last day{f', the last: {why}' if why else ''}"
        yield Finding("log", what, f"grep {event} {path}")


def whole_log(scene: Scene) -> Iterator[Finding]:
    """The log is what was written, and what is believed is what it says."""
    verified = scene.verified or {}
    replayed = verified.get("replayed") or {}
    back = "bus down; put a backup in its place, or: bus up --recover"
    if scene.unread:
        yield Finding("database", f"the log could not be read: {scene.unread}", "mend that, then again")
    if verified.get("broken"):
        yield Finding("database", f"the database is damaged: {verified['broken']}", back)
    elif replayed.get("differs", "").startswith("what the bus holds"):
        again = "bus down && bus up, which goes by the log; then again, and please report it"
        yield Finding("replay", replayed["differs"], again)
    elif replayed.get("differs"):
        yield Finding("replay", replayed["differs"], back)


def _recent(path: os.PathLike[str], now_s: float) -> Iterator[dict[str, Any]]:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES_READ))
            lines = file.read(LOG_BYTES_READ).splitlines()
    except OSError:
        return
    for line in lines:
        try:
            entry = json.loads(line)
            at_s = datetime.fromisoformat(entry["timestamp"]).timestamp()
        except (ValueError, KeyError, TypeError):
            continue  # the first is cut
        if at_s > now_s - RECENT_S:
            yield entry
