"""The bus as a service of the user's login: systemd units with socket activation, or a launchd agent.

It writes files that say whose they are, see own_files.py. What it does with the service
manager is each time one command that a person could have typed.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from pathlib import Path

from interlock.adapters.homes import default_root
from interlock.adapters.own_files import NotOurs, is_ours, mark, remove_ours, write_ours
from interlock.adapters.paths import Home

MARK = mark("bus up --install-service", "bus up --uninstall-service")
MANAGER_S = 90.0  # a stop waits for the supervisor to leave in order


class ServiceError(Exception):
    """It cannot be done; the text is one sentence with what to do."""


class LoginService:
    """The service of one home. Args: home: whose. platform: as sys.platform."""

    def __init__(self, home: Home, platform: str = sys.platform) -> None:
        self._home = home
        self._mac = platform == "darwin"
        own = str(home.root) == default_root()
        self.name = "interlock" if own else f"interlock-{sha256(os.fsencode(home.root)).hexdigest()[:8]}"

    def files(self) -> dict[Path, str]:
        """Each file and its text. Raises ServiceError for a home whose path cannot stand in them."""
        for path in (str(self._home.root), sys.executable):
            if not path.isprintable():  # line ends, control characters, names that are no UTF-8
                raise ServiceError(f"{path!r} cannot stand in a unit: use a path of visible characters")
        if self._mac:
            return {self._folder() / f"{self.name}.plist": self._plist()}
        return {
            self._folder() / f"{self.name}.socket": self._socket_unit(),
            self._folder() / f"{self.name}.service": self._service_unit(),
        }

    def installed(self) -> bool:
        """Whether the files of this home's service are there, and ours."""
        return all(is_ours(path) for path in self._paths())

    def present(self) -> list[Path]:
        """Those of its files that are there, and ours."""
        return [path for path in self._paths() if is_ours(path)]

    def write(self) -> bool:
        """Write the files. Returns whether any changed. Raises ServiceError, before any is written."""
        try:
            return bool(write_ours(self.files()))
        except NotOurs as error:
            raise ServiceError(str(error)) from None

    def remove(self) -> list[Path]:
        """Remove the files that are ours; which they were."""
        found = remove_ours(list(self._paths()))
        wanted = self._folder() / "sockets.target.wants" / f"{self.name}.socket"
        if wanted.is_symlink() and not wanted.exists():  # where systemctl could not
            wanted.unlink(missing_ok=True)
        return found

    def enable(self) -> None:
        """Have the manager listen, now and from each login on. Raises ServiceError."""
        if self._mac:
            domain, (path,) = f"gui/{os.getuid()}", self._paths()
            self._ask("launchctl", "bootout", f"{domain}/{self.name}", must=False)
            self._ask("launchctl", "bootstrap", domain, str(path))
            return
        self._ask("systemctl", "--user", "daemon-reload")
        self._ask("systemctl", "--user", "enable", "--now", f"{self.name}.socket")

    def disable(self) -> None:
        """Have the manager forget it; a supervisor that it runs leaves in order. Raises ServiceError."""
        if self._mac:
            self._ask("launchctl", "bootout", f"gui/{os.getuid()}/{self.name}", must=False)
            return
        self._ask("systemctl", "--user", "disable", "--now", f"{self.name}.socket", f"{self.name}.service")

    def reload(self) -> None:
        """After the files are gone."""
        if not self._mac:
            self._ask("systemctl", "--user", "daemon-reload", must=False)

    def runs(self) -> bool:
        """Whether the manager runs the supervisor now."""
        if self._mac:
            return self._ask("launchctl", "print", f"gui/{os.getuid()}/{self.name}", must=False) == 0
        return self._ask("systemctl", "--user", "is-active", "--quiet", f"{self.name}.service", must=False) == 0

    def listen(self, on: bool) -> None:
        """Have the manager listen at the socket, or not (after `bus down`). Raises ServiceError."""
        if not self._mac and self.installed():
            self._ask("systemctl", "--user", "start" if on else "stop", f"{self.name}.socket")

    def restart(self) -> None:
        """Have it run as its files say now. Raises ServiceError."""
        if not self._mac:
            self._ask("systemctl", "--user", "try-restart", f"{self.name}.service")

    def _ask(self, *words: str, must: bool = True) -> int:
        tool = shutil.which(words[0])
        if tool is None:
            if not must:
                return 127
            raise ServiceError(f"{words[0]} is not found: without it any bus command starts the bus all the same")
        try:
            done = subprocess.run(
                [tool, *words[1:]], capture_output=True, text=True, timeout=MANAGER_S, check=False,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ServiceError(f"{' '.join(words)} does not work: {error}") from None
        if done.returncode and must:
            said = done.stderr.strip().splitlines()
            why = said[0].rstrip(".") if said else f"exit {done.returncode}"
            raise ServiceError(f"{' '.join(words)} failed ({why}): where that command works, do this again")
        return done.returncode

    def _paths(self) -> Iterator[Path]:
        for ending in ("plist",) if self._mac else ("socket", "service"):
            yield self._folder() / f"{self.name}.{ending}"

    def _folder(self) -> Path:
        if self._mac:
            return Path("~/Library/LaunchAgents").expanduser()
        return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "systemd" / "user"

    def _command(self) -> list[str]:
        """`-P`: no folder of whoever starts it is looked into for modules."""
        return [sys.executable, "-P", "-m", "interlock", "--home", str(self._home.root), "up", "--as-service"]

    def _socket_unit(self) -> str:
        return f"""# {MARK}
[Unit]
Description=Interlock: the socket of the bus

[Socket]
ListenStream={_specifiers(str(self._home.socket()))}
SocketMode=0600
DirectoryMode=0700
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
"""

    def _service_unit(self) -> str:
        return f"""# {MARK}
[Unit]
Description=Interlock: the supervisor of the bus
Wants={self.name}.socket
After={self.name}.socket

[Service]
Type=notify
ExecStart={" ".join(_quoted(word) for word in self._command())}
# Servers and their keepers outlive the supervisor, which finds them again: only it is stopped.
KillMode=process
TimeoutStopSec=60
Restart=on-failure
RestartSec=1
# What a start again would not mend: usage, taken down, a home that cannot be, the configuration.
RestartPreventExitStatus=64 69 73 78
"""

    def _plist(self) -> str:
        words = "\n".join(f"    <string>{escape(word, quote=False)}</string>" for word in self._command())
        return f"""<?xml version="1.0" encoding="UTF-8"?>
<!-- {MARK.replace("--", "- -")} -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>{self.name}</string>
  <key>ProgramArguments</key>
  <array>
{words}
  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>AbandonProcessGroup</key>
  <true/>
  <key>StandardErrorPath</key>
  <string>{escape(str(self._home.logs / "launchd.log"), quote=False)}</string>
</dict>
</plist>
"""


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """A word of a unit's command line."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_specifiers(plain)}"'
