"""Checks of the login service: that what starts the bus at login is the bus that is here."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from html import unescape
from pathlib import Path

from interlock.adapters.doctor.scene import Finding, Scene
from interlock.adapters.login_service import LoginService, ServiceError

PROGRAM = re.compile(r'^ExecStart="((?:[^"\\]|\\.)*)"|<array>\s*<string>(.*?)</string>', re.MULTILINE)


def service(scene: Scene) -> Iterator[Finding]:
    """Its files call a program that is there, and are what this command would write."""
    login = LoginService(scene.home)
    present = login.present()
    if not present:
        return
    with suppress(OSError, ServiceError, UnicodeDecodeError):
        texts = {path: path.read_text() for path in present}
        gone = next((path for path in map(_program, texts.values()) if path and not os.path.exists(path)), "")
        if gone:
            what = f"the login service calls {gone}, which is gone: at the next login no bus starts"
            yield Finding("service", what, "bus up --install-service")
        elif len(present) < len(login.files()):
            what = f"of the login service only {', '.join(path.name for path in present)} is there"
            yield Finding("service", what, "bus up --install-service")
        elif texts != login.files():
            what = f"the login service ({present[-1]}) starts another version, or another home, than this command has"
            yield Finding("service", what, "bus up --install-service")


def _program(text: str) -> Path | None:
    """What a unit or an agent executes; None in a file without."""
    found = PROGRAM.search(text)
    if found is None:
        return None
    if found[1] is not None:
        return Path(re.sub(r"\\(.)", r"\1", found[1]).replace("$$", "$").replace("%%", "%"))
    return Path(unescape(found[2]))
