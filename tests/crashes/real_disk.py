"""A real file system that is full, or read-only: the home lies on a small one of its own, in a namespace of its own.

    play(point) ──▶ unshare ──▶ python -m tests.crashes.real_disk POINT: mount, fill, kill, make room ──▶ Story

No privilege is needed where user namespaces are allowed; where neither they nor mounts are, `refusal` says so. A file
system is read-only to those who open something from then on: the kernel refuses that state while a file is open for
writing, so a supervisor is killed before it, or sees it at every path but not through what it has open (`shadowed`).
"""

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from tests.crashes.faults import Point
from tests.crashes.promises import broken_promises, read_journal
from tests.crashes.story import Story
from tests.end_to_end.conftest import a_bus
from tests.end_to_end.playground import PYTHON, ROOT, Bus, Done, Event

from interlock.adapters.cli.connection import Connection
from interlock.adapters.cli.options import Failure, Options
from interlock.adapters.paths import Home

TALK = "disk"
FULL, READ_ONLY = "full", "readonly"
SIZE = 12 << 20  # of the file system: three times what the log is given at the start
PAGE = 4_096
ROOMS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 40, 400, 1100)  # pages left free at a start
KINDS = ("first", "later", "during", "shadowed")  # of start, or of a change while it runs
LOCK = "machine/lock"
NOES = {69, 73, 74}  # a disk that refuses: not running and cannot be started; cannot be made; cannot be written
SCENES: dict[str, Callable[["Scene"], None]] = {}


def points(fault: str) -> list[Point]:
    """All that can be played with FULL or READ_ONLY; nothing for another fault."""
    if fault not in {FULL, READ_ONLY}:
        return []
    if fault == READ_ONLY:
        return [Point(TALK, READ_ONLY, each, 0) for each in ("first", "later", "shadowed")]
    during = [Point(TALK, FULL, "during", killed) for killed in (0, 1)]
    return during + [Point(TALK, FULL, each, pages) for each in ("first", "later") for pages in ROOMS]


@functools.cache
def refusal() -> str:
    """Why no file system can be mounted here, in one sentence; "" where one can."""
    for words in (["unshare", "-Urm"], ["unshare", "-m"]):
        with contextlib.suppress(OSError):
            tried = [*words, "mount", "-t", "tmpfs", "-o", "size=64k", "none", "/tmp"]
            if subprocess.run(tried, capture_output=True, check=False, timeout=30).returncode == 0:
                _NAMESPACE[:] = words
                return ""
    return "no file system can be mounted here: user namespaces are forbidden, and this is not root"


_NAMESPACE: list[str] = []


def play(point: Point) -> Story:
    """Play one. Where it cannot be played, its story has no `met`, and says why."""
    if why := refusal():
        return Story(str(point), no=[why])
    argv = [*_NAMESPACE, str(PYTHON), "-m", "tests.crashes.real_disk", str(point)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    try:
        return msgspec.json.decode(done.stdout, type=Story)
    except msgspec.MsgspecError:
        return Story(str(point), broken=[f"it ended with {done.returncode}: {done.stdout}{done.stderr}"])


class Scene:
    """One home on one small disk."""

    def __init__(self, bus: Bus, story: Story, rooms: int) -> None:
        self.bus, self.story, self.rooms = bus, story, rooms
        self.said: list[Event] = []
        self._filler = bus.home / "filler"

    # --- the disk -----------------------------------------------------------------------------
    def fill(self, leave: int = 0) -> None:
        """To the last byte; then `leave` pages are given back."""
        with open(self._filler, "ab", buffering=0) as filler:
            with contextlib.suppress(OSError):
                while filler.write(bytes(64 * PAGE)):
                    pass
            with contextlib.suppress(OSError):
                while filler.write(b"x" * PAGE):
                    pass
            filler.truncate(max(0, filler.tell() - leave * PAGE))
        free = os.statvfs(self.bus.home).f_bavail
        assert free == leave, f"{free} pages are free, {leave} were meant"

    def make_room(self) -> None:
        self._filler.unlink()

    def remount(self, how: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{how}", str(self.bus.home)], check=True)

    # --- what people and programs do ------------------------------------------------------------
    def ask(self, agent: str, text: str, to: str = "coordinator") -> Event:
        """A message and its answer, kept where it is no refusal. It starts a supervisor, as any command does."""
        connection = Connection(Options(agent, "--as", str(self.bus.home)), notices=False)
        try:
            connection.open()
            message_id = f"{agent}-{len(self.said)}-{len(self.story.no)}"
            body: Event = connection.ask(to, message_id=message_id, text=text)["body"]
        except Failure as failure:
            self._is_no(text[:40], Done(failure.exit_code, "", str(failure)))
            return {"type": "REFUSED"}
        finally:
            connection.close()
        if body["type"] == "REFUSED":
            self._is_no(text[:40], Done(74 if body["code"] == "JOURNAL_UNAVAILABLE" else 1, "", body["why"]))
        else:
            self.said.append({**body, "agent": agent, "id": message_id, "asked": text[:40]})
        return body

    def says_no(self, *words: str, agent: str = "") -> None:
        """One sentence, a code of a disk's, and no trace of a program."""
        self._is_no(" ".join(words), self.bus(*words, agent=agent))

    def up(self) -> bool:
        """`bus up`: True where it serves; a no is one sentence."""
        done = self.bus("up")
        if done.code:
            self._is_no("up", done)
        return not done.code

    def serves(self) -> None:
        """It does again: by itself, or by a start that any command makes; nothing is said to be lost."""
        done = self.bus("--json", "up")
        if done.code:
            self.story.broken.append(f"with room again bus up says {done.code}: {done.err}")
        elif recovery := done.json["recovery"]:
            self.story.broken.append(f"nothing was lost, and the bus says: {recovery}")

    def holds(self, agent: str, fence: int) -> None:
        """Whoever has it still has it, under the same number."""
        found = self.bus("--json", "check", LOCK, agent=agent)
        if found.code or found.json["body"]["fence"] != fence:
            self.story.broken.append(f"8: {agent} held it under {fence}, and then: {found}")

    def kill(self) -> None:
        if self.bus.supervisor():
            with contextlib.suppress(ProcessLookupError, AssertionError):
                self.bus.kill_supervisor()

    def _is_no(self, words: str, done: Done) -> None:
        said = done.err.strip()
        self.story.no.append(f"{done.code}: {said}")
        if done.code not in NOES or not said or "Traceback" in said or "Error" in said or len(said.splitlines()) > 1:
            self.story.broken.append(f"bus {words}: {done.code}, no such sentence: {done.out}{done.err}")


def main(text: str) -> None:
    """Inside of the namespace."""
    point = Point.read(text)
    story = Story(text)
    for name in [each for each in os.environ if each.startswith("BUS_")]:
        del os.environ[name]
    with contextlib.redirect_stderr(open(os.devnull, "w")), a_bus() as bus:
        bus.home.mkdir(mode=0o700)
        with _mounted(bus.home):
            scene = Scene(bus, story, point.number)
            try:
                SCENES[f"{point.fault}_{point.call}"](scene)
                _judge(scene)
            except Exception as error:
                story.broken.append(f"{type(error).__name__}: {error}")
            story.said = [f"{body['agent']} ⟵ {body['type']}" for body in scene.said]
            if story.broken:
                with contextlib.suppress(OSError):
                    lines = (bus.home / "log" / "supervisor.log").read_text(errors="replace").splitlines()
                    story.no += [f"log    {line[:600]}" for line in lines if '"level": "info"' not in line][-20:]
            left = bus.clean_up()
            story.broken += [f"left: {each}" for each in left]
            bus.started.clear()
    sys.stdout.write(msgspec.json.encode(story).decode())


@contextlib.contextmanager
def _mounted(home: Path) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=700", "none", str(home)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(home)], check=False)


def _judge(scene: Scene) -> None:
    """After an orderly end: what was said holds against the log."""
    scene.bus.ok("down", "--stop-servers")
    scene.bus.ok("up")  # what was left in the queue is served or gone by now; one more life
    scene.bus.ok("down", "--stop-servers")
    scene.story.broken += broken_promises(scene.said, read_journal(Home(scene.bus.home).database))


def scene(play: Callable[[Scene], None]) -> Callable[[Scene], None]:
    SCENES[play.__name__] = play
    return play


def _past(scene: Scene) -> int:
    """A has it, B waits; A's fence."""
    scene.bus.ok("up")
    scene.story.met = "a past"
    granted = scene.ask("A", f"REQUEST {LOCK} - first, 2h")
    assert granted["type"] == "GRANTED", granted
    assert scene.ask("B", f"REQUEST {LOCK} - then, 2h")["type"] == "QUEUED"
    return int(granted["fence"])


def _all_is_well(scene: Scene, fence: int) -> None:
    """With room: A has what it had, gives it back, and B has it under a greater number."""
    scene.holds("A", fence)
    released = scene.ask("A", f"RELEASE {LOCK}")
    assert released["type"] == "RELEASED", released
    assert scene.bus("wait", LOCK, agent="B").code == 0
    later = scene.bus("--json", "check", LOCK, agent="B").json["body"]
    assert later["fence"] > fence, f"1: fence {fence}, and then {later['fence']}"
    scene.said.append({**later, "agent": "B", "asked": "CHECK"})
    scene.ask("B", f"RELEASE {LOCK}")


@scene
def full_during(scene: Scene) -> None:
    """It fills up while the bus runs, and has room again later; with rooms = 1 it is killed in between."""
    fence, pid = _past(scene), scene.bus.supervisor()
    scene.fill()
    for number in range(2_000):  # what the log has room for is taken, durably; then comes a no
        if scene.ask("B", f"letter {number} {'x' * 60_000}", "A")["type"] == "REFUSED":
            break
    assert scene.story.no, "it never was full"
    scene.says_no("release", LOCK, agent="A")
    scene.holds("A", fence)
    if scene.rooms:
        scene.kill()
        if scene.up():
            scene.holds("A", fence)
    scene.make_room()
    scene.serves()
    assert scene.rooms or scene.bus.supervisor() == pid, "it went on by itself"
    _all_is_well(scene, fence)


@scene
def full_first(scene: Scene) -> None:
    """The first start of all, on a disk that has no room, or next to none; a kill; and then there is room."""
    (scene.bus.home / "bus.toml").write_text('[resources.other]\nkind = "lock"\n')
    scene.fill(scene.rooms)
    scene.story.met = f"{scene.rooms} pages free"
    fence = 0
    if scene.up():
        fence = int(scene.ask("A", f"REQUEST {LOCK} - first, 2h").get("fence", 0))
    elif scene.rooms == 0:
        scene.says_no("request", LOCK, "--for", "x", agent="A")
        scene.says_no("status")
    scene.kill()
    scene.make_room()
    scene.serves()
    if fence:
        scene.holds("A", fence)
    else:
        fence = int(scene.ask("A", f"REQUEST {LOCK} - first, 2h")["fence"])
    assert scene.ask("B", f"REQUEST {LOCK} - then, 2h")["type"] == "QUEUED"
    _all_is_well(scene, fence)


@scene
def full_later(scene: Scene) -> None:
    """A start of a bus with a past."""
    fence = _past(scene)
    scene.kill()
    scene.fill(scene.rooms)
    if scene.up():
        scene.holds("A", fence)
        scene.ask("A", f"EXTEND {LOCK} more, 10m")
        scene.kill()
        if scene.up():
            scene.holds("A", fence)
    scene.kill()
    scene.make_room()
    scene.serves()
    _all_is_well(scene, fence)


@scene
def readonly_first(scene: Scene) -> None:
    """The first start of all on what cannot be written."""
    scene.story.met = "read-only"
    scene.remount("ro")
    for words in (("up",), ("request", LOCK, "--for", "x"), ("status",)):
        scene.says_no(*words, agent="A")
    scene.remount("rw")
    scene.serves()


@scene
def readonly_later(scene: Scene) -> None:
    """A bus with a past comes back to what cannot be written."""
    fence = _past(scene)
    scene.kill()
    scene.remount("ro")
    for words in (("up",), ("check", LOCK), ("release", LOCK), ("request", LOCK, "--for", "x"), ("status",)):
        scene.says_no(*words, agent="A")
    scene.remount("rw")
    scene.serves()
    _all_is_well(scene, fence)


@scene
def readonly_shadowed(scene: Scene) -> None:
    """While it runs every path in the home becomes read-only; what it has open still takes what is written."""
    fence = _past(scene)
    home = str(scene.bus.home)
    subprocess.run(["mount", "--bind", home, home], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", home], check=True)
    scene.holds("A", fence)
    scene.ask("C", "REQUEST machine/new - one whose state file cannot be made, 2h")
    scene.kill()
    scene.says_no("up")
    subprocess.run(["umount", "-l", home], check=True)
    scene.serves()
    _all_is_well(scene, fence)


if __name__ == "__main__":
    main(sys.argv[1])
