"""Checks of what is declared: that this machine has what it asks for, and that it says what was meant."""

import os
import pwd
from collections.abc import Iterator
from contextlib import suppress
from shlex import quote

from interlock.adapters.configuration import look_here
from interlock.adapters.doctor.scene import Finding, Scene
from interlock.adapters.terminals import tmux_problem
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.names import short_name

RUN_ANYTHING = {"sh", "bash", "dash", "ash", "zsh", "fish", "ksh", "csh", "tcsh", "busybox", "env", "node", "python3"}


def windows(scene: Scene) -> Iterator[Finding]:
    """Servers in windows need a tmux that can be used."""
    try:
        resources = look_here(scene.home, "/").config.resources
    except ConfigError:
        return
    wanted = [short_name(key) for key, each in resources.items() if getattr(each.server, "terminal", "") == "tmux"]
    problem = tmux_problem() if wanted else ""
    if problem:
        why, _, mend = problem.partition(": ")
        yield Finding("tmux", f"{', '.join(wanted)} would run in a window of tmux, but {why}", mend)


def spared(scene: Scene) -> Iterator[Finding]:
    """A spared name that runs anything leaves whole servers behind."""
    anything = set(RUN_ANYTHING)
    with suppress(KeyError):
        anything.add(os.path.basename(pwd.getpwuid(os.getuid()).pw_shell))
    names = [words[0] for words in (scene.config.spare if scene.config is not None else ()) if words[1:] == ()]
    found = [name for name in names if name in anything]
    if found:
        what = (
            f"[bus] spare names {', '.join(found)}, which run anything: such a process of a server is never stopped, "
            "and may keep its port"
        )
        edit = f"${{EDITOR:-vi}} {quote(str(scene.home.config))}"
        yield Finding("spare", what, f"{edit}, and name the daemon itself, or an argument of it")
