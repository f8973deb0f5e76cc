"""`[bus] spare` through the command: a build's daemon lives on, the resource is free, and everybody can see why."""

import json
import shutil
import sys

import pytest
from tests.end_to_end.conftest import Home
from tests.end_to_end.playground import Bus, alive, kill

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sparing needs /proc")


def test_a_run_that_leaves_a_spared_daemon_gives_the_resource_back_and_says_so(bus: Bus, home: Home) -> None:
    # given
    home.write('[bus]\nspare = ["watchd"]\n')
    shutil.copy(shutil.which("sleep") or "/bin/sleep", bus.folder / "watchd")
    # when
    script = f"setsid {bus.folder}/watchd 600 >/dev/null 2>&1 & exit 3"
    done = bus("run", "--resource", "machine/build", "--", "sh", "-c", script, agent="A")
    # then
    assert done.code == 3
    pid = int(done.err.partition("(pid ")[2].partition(")")[0])
    assert f"left running, as a daemon that outlives commands: {bus.folder}/watchd 600 (pid {pid})" in done.err
    assert alive(pid)
    assert bus("request", "machine/build", agent="B").code == 0
    told = [json.loads(line) for line in bus.ok("tail", "--json", "--since", "0").splitlines()]
    assert any(f"watchd (pid {pid})" in json.dumps(event) for event in told), told
    kill(pid)


def test_the_daemon_of_a_build_is_left_behind_without_a_word_in_the_configuration(bus: Bus, home: Home) -> None:
    # given
    home.write("")
    shutil.copy(shutil.which("sleep") or "/bin/sleep", bus.folder / "watchman")
    # when
    script = f"setsid {bus.folder}/watchman 600 >/dev/null 2>&1 & exit 0"
    done = bus("run", "--resource", "machine/build", "--", "sh", "-c", script, agent="A")
    # then
    assert done.code == 0, done
    pid = int(done.err.partition("watchman 600 (pid ")[2].partition(")")[0])
    assert alive(pid)
    assert bus("request", "machine/build", agent="B").code == 0
    kill(pid)
