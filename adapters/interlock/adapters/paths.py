"""Where things lie in a BUS_HOME, and the checks that nobody else planted them.

It never follows a symlink inside the home, and never works in a directory that another user can write to.
"""

import os
import re
import stat
from pathlib import Path

from interlock.adapters.homes import home_root, socket_path

# All that a bus makes in its home. A part that puts something else there adds its name; nothing else is ever removed.
NAMES = re.compile(
    r"bus\.(toml|lock|sock|down)|bus\.db(\.aside-[0-9Tx]+)?(-wal|-shm|-journal)?"
    r"|trusted\.json|\.trusted\.json\.[0-9a-f]+|\.backup-[0-9a-f]+(\.part)?"
    r"|inboxes|launches|log|shared-resources|tmux|tokens"
)
COPY_PREFIX = ".backup-"  # a backup on its way out
PART_SUFFIX = ".part"  # of one that is being written: nobody has been told of it


class BadHome(Exception):
    """The home cannot be used; the text is one sentence with what to do."""


class Home:
    """The paths of one bus. Args: root: its BUS_HOME, absolute."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config = root / "bus.toml"
        self.database = root / "bus.db"
        self.lock = root / "bus.lock"
        self.down = root / "bus.down"  # a `bus down` that no `bus up` has followed
        self.launches = root / "launches"
        self.logs = root / "log"
        self.states = root / "shared-resources"
        self.tokens = root / "tokens"  # made with the first of them

    def create(self) -> None:
        """Make the home and its folders, 0700. Raises BadHome."""
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            for folder in (self.root, self.launches, self.logs, self.states):
                folder.mkdir(exist_ok=True, mode=0o700)
                check_directory(folder)
            for file in (self.config, self.database, self.lock, self.down):
                if file.is_symlink():
                    raise BadHome(f"{file} is a symbolic link, and none is followed here: put the file itself there")
        except OSError as error:
            raise BadHome(
                f"cannot create {error.filename or self.root} ({error.strerror}): set BUS_HOME to a directory of yours"
            ) from None

    def socket(self) -> Path:
        """The Unix socket, see homes.py."""
        return Path(socket_path(str(self.root)))

    def socket_directory(self) -> Path:
        """Make and check the directory of the socket. Raises BadHome."""
        directory = self.socket().parent
        if directory != self.root:
            try:
                directory.mkdir(exist_ok=True, mode=0o700)
            except OSError as error:
                raise BadHome(f"cannot create {directory} ({error.strerror}): use a shorter BUS_HOME") from None
            check_directory(directory)
        return directory


def is_of_a_home(name: str) -> bool:
    """Whether the bus makes what is called so in a home; all else there is somebody's own."""
    return NAMES.fullmatch(name) is not None


def find_home(option: str = "") -> Home:
    """The home that was asked for: --home, BUS_HOME, else the user's state directory."""
    return Home(Path(home_root(option)))


def check_directory(directory: Path) -> None:
    """Raise BadHome unless it is a real directory of this user that nobody else can write to."""
    found = os.lstat(directory)
    if stat.S_ISLNK(found.st_mode) or not stat.S_ISDIR(found.st_mode):
        raise BadHome(f"{directory} is no directory of its own (a link or a file): move it away")
    if found.st_uid != os.getuid():
        raise BadHome(f"{directory} belongs to user {found.st_uid}, not to you: set BUS_HOME to a directory of yours")
    if found.st_mode & 0o077:
        try:
            directory.chmod(0o700)
        except OSError:
            raise BadHome(f"{directory} is open to others: chmod 700 {directory}") from None
