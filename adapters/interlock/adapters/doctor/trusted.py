"""Checks of what a person has trusted: the store can be read, and what it names is as it was."""

from collections.abc import Iterator
from shlex import quote

from interlock.adapters.cli.forget import is_gone
from interlock.adapters.configuration import Here
from interlock.adapters.doctor.scene import Finding, Scene
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
