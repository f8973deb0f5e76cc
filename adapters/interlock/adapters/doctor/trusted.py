"""Checks of whom a person has trusted: the stores can be read, what they name is as it was, no token lies open."""

import os
import stat
from collections.abc import Iterator
from shlex import quote

from interlock.adapters.cli.forget import is_gone
from interlock.adapters.configuration import Here
from interlock.adapters.doctor.scene import Finding, Scene
from interlock.adapters.tokens import LocalTokens
from interlock.adapters.trust import LocalRepositories
from interlock.coordinator.config import Config
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.visible import visible

NAMED_MAX = 8


def trust(scene: Scene) -> Iterator[Finding]:
    """The store can be read; what it names is there, and has the content that was trusted."""
    files = LocalRepositories(scene.home)
    try:
        trusted = files.trusted()
    except ConfigError as error:
        store = quote(str(files.store))
        yield Finding("trust", str(error), f"mv {store} {quote(str(scene.home.root.parent))}")
        return
    gone = [each for each in trusted if is_gone(each)]
    if gone:
        named = ", ".join(visible(each.file) for each in gone[:NAMED_MAX])
        what = f"{len(gone)} trusted repositories are not there any more: {named}"
        yield Finding("trust", what, "bus forget --gone")
    here = Here(scene.home, files, Config(), Config(), trusted, None)
    for each in trusted:
        state, file = here.state(each), quote(each.file)
        if each in gone or state == "trusted":
            continue
        why, mend = {
            "changed": ("has changed since it was trusted, and does not count", f"bus config trust {file}"),
            "gone": ("is gone, and so is what it declared", f"bus config untrust {file}, or put it back"),
        }.get(state, ("cannot be read, and does not count", f"bus config check {file}"))
        yield Finding("trust", f"{visible(each.file)} {why}", mend)


def tokens(scene: Scene) -> Iterator[Finding]:
    """Where tokens say who somebody is, nobody else can read them."""
    if scene.config is None or scene.config.identity != "token":
        return
    local = LocalTokens(scene.home)
    try:
        known = local.all()
    except ConfigError as error:
        yield Finding("token", str(error), f"mv {quote(str(local.store))} {quote(str(scene.home.root.parent))}")
        return
    for each in known:
        try:
            mode = os.stat(each.file).st_mode
        except OSError:
            continue
        if mode & 0o077:
            what = f"{visible(each.file)}, the token of {each.agent}, is open to others (mode {stat.S_IMODE(mode):03o})"
            yield Finding("token", what, f"chmod 600 {quote(each.file)}")
