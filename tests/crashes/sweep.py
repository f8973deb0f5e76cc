"""One point of the sweep: a conversation, a fault at one counted call, a restart, and the judgement.

count(talk) ──▶ how often each call is made        play(point) ──▶ Story: what was said, what broke
"""

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterator

from tests.crashes import real_disk
from tests.crashes.faults import KILL, Point, Watched
from tests.crashes.promises import broken_promises, left_lying, own_faults, read_journal
from tests.crashes.story import Story
from tests.crashes.talks import TALKS, Talk, prepare
from tests.end_to_end.conftest import a_bus
from tests.end_to_end.playground import WAIT_S, Bus, executions, free_port
from tests.polling import pause

from interlock.adapters.doctor.checks import examine
from interlock.adapters.doctor.scene import look
from interlock.adapters.paths import Home

# What the doctor finds in every home here: of the machine, of agents without a program, of this very conversation.
OF_THE_SCENE = {"disk", "network", "environment", "unbound", "unread", "rejected", "service"}
WRITTEN_AGAIN = "state_files"  # found after a disk that failed, until they are tried again
SAYS_WHY = {"log"}  # after a disk that failed, that the log has a line about it is as it should be


def count(talk: str) -> Counter[str]:
    """How often each call is made in that conversation when nothing fails. Raises AssertionError where it breaks."""
    story = play(Point(talk, KILL, "none", 0))
    assert not story.broken, story.told()
    return Counter(story.counts)


def play(point: Point, *, words: tuple[str, ...] = ("small",)) -> Story:
    """Play one point. Args: words: for the watched supervisor, see tests/fixtures/watched_supervisor.py."""
    if point.talk == real_disk.TALK:
        return real_disk.play(point)
    story = Story(str(point))
    try:
        with _no_caller(), a_bus() as bus, open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
            port = free_port()
            prepare(point.talk, bus, port)
            watched = Watched(bus, point, words)
            talk = Talk(bus, watched, port)
            try:
                _play(point, talk, story)
            finally:
                watched.lift()
                talk.close()
                story.met, story.counts, story.no = watched.met, dict(watched.counts), talk.no
                story.said = [_in_short(body) for body in talk.said if body["agent"] != "nobody"]
                if story.broken:
                    story.no += _log_of(bus)
    except Exception as error:
        story.broken.append(f"{type(error).__name__}: {error}")
    return story


def _play(point: Point, talk: Talk, story: Story) -> None:
    bus, watched, home = talk.bus, talk.watched, Home(talk.bus.home)
    word = watched.up()
    if word.startswith("FAILED"):
        talk.no.append(word)
        watched.lift()
        if _is_no_sentence(word):
            story.broken.append(f"it did not start, and said: {word}")
    try:
        TALKS[point.talk](talk)
    except Exception as error:
        story.broken.append(f"the conversation did not come to its end: {type(error).__name__}: {error}")
        story.broken += own_faults(home.logs / "supervisor.log")
        with contextlib.suppress(Exception):
            story.broken += [f"status: {each}" for each in talk.question("nobody", "STATUS")["resources"]]
        return
    watched.over()
    talk.question("nobody", "PING")  # where the last answer was what it was killed at, another is started
    assert watched.running is not None
    story.died = watched.running.process.poll() is not None
    story.broken += _found_by_the_doctor(home, failed=point.fault != KILL)
    talk.down()
    if watched.running.process.poll() is None:
        watched.running.end()
    if not story.died:  # else the conversation has been through a start already
        _restart_and_end(talk)
    journal = read_journal(home.database)
    story.broken += broken_promises(talk.said, journal)
    story.broken += left_lying(home, journal, kills=2)
    story.broken += own_faults(home.logs / "supervisor.log")
    if point.talk == "server" and (executions(bus.folder / "w1"), executions(bus.folder / "w2")) != (1, 1):
        ran = executions(bus.folder / "w1"), executions(bus.folder / "w2")
        story.broken.append(f"5: servers were executed {ran} times, each was asked for once")
    if talk.ran:
        fences = (bus.folder / "ran").read_text().split()
        wanted = [
            str(event["fence"]) for event in journal.events if event["type"] == "granted" and event["agent"] == "D"
        ]
        given_back = [each for each in wanted if each not in fences]  # by one that failed before its command ran
        failed = sum(each.startswith("bus run ended") for each in talk.no)
        if fences != [each for each in wanted if each in fences] or len(given_back) > failed:
            story.broken.append(f"a command of bus run ran under {fences}, granted was {wanted}")


def _restart_and_end(talk: Talk) -> None:
    """One more life, which nobody watches and nothing happens in: what a start sweeps away is gone after it."""
    talk.question("nobody", "PING")
    talk.down()


def _found_by_the_doctor(home: Home, *, failed: bool) -> Iterator[str]:
    """What `bus doctor` finds where nothing should be wrong any more."""
    scene = look(home, {}, whole_log=True)
    if scene.asked is None:
        yield f"bus doctor: nobody answers ({scene.silent})"
        return
    findings = list(examine(scene))
    end = time.monotonic() + WAIT_S
    while failed and any(each.about == WRITTEN_AGAIN for each in findings) and time.monotonic() < end:
        pause()
        findings = list(examine(look(home, {}, whole_log=True)))
    for finding in findings:
        if finding.about in OF_THE_SCENE or (failed and finding.about in SAYS_WHY):
            continue
        yield f"bus doctor: {finding.about}: {finding.what}: {finding.mend}"


def _is_no_sentence(word: str) -> bool:
    """A start that fails says its code, and one sentence that a person can follow; no name of an exception."""
    _, code, why = [*word.split(" ", 2), "", ""][:3]
    return code not in {"69", "73", "74", "78"} or not why or "Error" in why or "Exception" in why


def _in_short(body: dict[str, object]) -> str:
    shown = {name: value for name, value in body.items() if name in {"fence", "position", "request_id", "to", "why"}}
    return f"{body['agent']} ⟵ {body['type']} {shown if shown else ''}".rstrip()


def _log_of(bus: Bus) -> list[str]:
    try:
        lines = (bus.home / "log" / "supervisor.log").read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [f"log    {line[:600]}" for line in lines if '"level": "info"' not in line][-20:]


@contextlib.contextmanager
def _no_caller() -> Iterator[None]:
    """This process speaks to the bus itself here: it must not look like somebody's client, nor start one as such."""
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("BUS_")}
    try:
        yield
    finally:
        os.environ.update(kept)
