"""Other users of the machine can neither read nor post, nor connect, nor plant anything that is followed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.adapters.folder_user import FolderUser, joined
from tests.adapters.shared_bus import shared_bus
from tests.end_to_end.playground import WAIT_S, Bus

NOBODY = 65_534
pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")


@pytest.fixture(scope="module")
def bus() -> Iterator[Bus]:
    with shared_bus() as bus:
        os.chmod(bus.folder, 0o755)  # what is tested is the home itself
        joined(bus, "mine")
        bus.ok("send", "mine", "a secret", agent="mine")
        yield bus


def as_other(program: str, *argv: str, user: int = NOBODY) -> subprocess.CompletedProcess[str]:
    """Run a program in Python as another user. What it imports first, it imports as us: it may not see our files."""
    first, _, rest = program.partition("# as another user")
    become = f"import os; os.setgroups([]); os.setgid({user}); os.setuid({user})"
    return subprocess.run(
        [sys.executable, "-c", f"{first}\n{become}\n{rest}", *argv], text=True, capture_output=True, check=False,
        timeout=WAIT_S, cwd="/", env={"PATH": os.environ["PATH"]},
    )  # fmt: skip


TRY = """
import os, socket, sys
# as another user
home = sys.argv[1]
for what, act in {
    "list": lambda: os.listdir(home),
    "inboxes": lambda: os.listdir(home + "/inboxes"),
    "read": lambda: open(home + "/inboxes/mine/new").read(),
    "database": lambda: open(home + "/bus.db").read(),
    "post": lambda: open(home + "/inboxes/coordinator/new/other--x", "w"),
    "out": lambda: open(home + "/inboxes/mine/out/x", "w"),
    "relay": lambda: os.mkdir(home + "/inboxes/coordinator/relay/0123456789abcdef"),
    "connect": lambda: socket.socket(socket.AF_UNIX).connect(home + "/bus.sock"),
    "plant": lambda: os.symlink("/etc", home + "/inboxes/planted"),
    "move": lambda: os.rename(home + "/inboxes", home + "/elsewhere"),
    "open": lambda: os.chmod(home, 0o777),
}.items():
    try:
        act()
        print(what)
    except PermissionError:
        pass
"""


def test_they_cannot_read_post_connect_or_plant(bus: Bus) -> None:
    done = as_other(TRY, str(bus.home))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_all_of_a_home_is_its_users_alone(bus: Bus) -> None:
    for path in [bus.home, *bus.home.rglob("*")]:
        found = os.lstat(path)
        assert found.st_uid == os.getuid(), path
        private = path.is_dir() or path.suffix == ".json" or path.parent.name in {"out", "new"}
        assert not private or not found.st_mode & 0o077, path


def test_what_another_user_has_got_into_a_folder_is_put_aside(bus: Bus) -> None:
    """However it came there: moved in by its owner, or through a mount."""
    # given
    out = bus.home / "inboxes" / "mine" / "out"
    foreign = bus.folder / "foreign"
    foreign.write_text("REQUEST machine/foreign -\n")
    os.chown(foreign, NOBODY, NOBODY)
    # when
    foreign.rename(out / "foreign")
    # then
    told = FolderUser(bus, "mine").answer("foreign")["body"]
    assert f"it belongs to user {NOBODY}" in told["why"]


def test_a_folder_of_another_user_is_not_used(bus: Bus) -> None:
    # given
    joined(bus, "stolen")
    folder = bus.home / "inboxes" / "stolen"
    os.chown(folder, NOBODY, NOBODY)
    # when
    bus.ok("send", "stolen", "hi", agent="mine")
    refused = bus("join", "stolen", "--files")
    # then
    assert f"belongs to user {NOBODY}" in refused.out
    assert list((folder / "new").iterdir()) == []
    os.chown(folder, os.getuid(), os.getgid())


LONG_HOME = """
import pathlib, sys
from interlock.adapters.cli.connection import connect
from interlock.adapters.cli.options import Failure
from interlock.adapters.paths import BadHome, Home
import hashlib, socket
# as another user
home = sys.argv[1]
try:
    Home(pathlib.Path(home)).socket_directory()
except BadHome as error:
    print(error)
try:
    connect(home)
except Failure as failure:
    print(failure.exit_code, failure)
except FileNotFoundError:
    print("no supervisor")
"""


@pytest.mark.parametrize("how", ["another's", "open", "link"])
def test_the_short_directory_of_a_long_home_is_ours_alone_and_a_planted_one_is_refused(
    tmp_path: Path, how: str
) -> None:
    # given: a user of its own, so that nobody's directory is touched
    user = 54_321
    planted = Path(f"/tmp/interlock-{user}")
    if how == "link":
        planted.symlink_to(tmp_path)
    else:
        planted.mkdir(mode=0o700)
        os.chown(planted, NOBODY if how == "another's" else user, user)
        os.chmod(planted, 0o777)
    try:
        # when
        done = as_other(LONG_HOME, f"/tmp/{'x' * 120}", user=user)
        # then
        assert done.stderr == ""
        says = done.stdout.splitlines()
        assert says[-1].startswith(f"77 {planted} is not a directory of yours alone") or how == "open"
        assert str(planted) in says[0] or how == "open"
        assert how != "open" or planted.stat().st_mode & 0o077 == 0  # it is ours: closed before it is used
        assert list(tmp_path.iterdir()) == []
    finally:
        planted.unlink() if how == "link" else planted.rmdir()
