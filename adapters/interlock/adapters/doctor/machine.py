"""Checks of the machine and of the command's surroundings."""

import os
import shutil
from collections.abc import Iterator

from interlock.adapters.doctor.scene import Finding, Scene
from interlock.adapters.launch_result import read_result
from interlock.adapters.mounts import network_file_system
from interlock.adapters.process import probe
from interlock.protocol.identity import Presence

FREE_BYTES_MIN = 64 * 1024 * 1024  # a log, a snapshot and a supervisor's own log fit twice
FREE_FILES_MIN = 1_000
MEANT_FOR_USERS = {"BUS_HOME", "BUS_AGENT", "BUS_AUTOSTART", "BUS_TOKEN", "BUS_TOKEN_FILE", "BUS_AGENT_INSTANCE_KEY"}
MADE_BY_A_RUN = {"BUS_LAUNCH", "BUS_RESOURCE", "BUS_FENCE", "BUS_UNIT", "BUS_WORKTREE", "BUS_RESOURCE_URL"}


def disk(scene: Scene) -> Iterator[Finding]:
    """There is room for what is to be recorded."""
    if not scene.home.root.is_dir():
        return
    free, files = shutil.disk_usage(scene.home.root).free, os.statvfs(scene.home.root)
    if free < FREE_BYTES_MIN:
        what = f"{free // 1024 // 1024} MiB are free on the disk of {scene.home.root}: soon nothing can be recorded"
        yield Finding("disk", what, f"make room there: df -h {scene.home.root}")
    if files.f_files and files.f_favail < FREE_FILES_MIN:
        what = f"{files.f_favail} files can still be made on the disk of {scene.home.root}"
        yield Finding("disk", what, f"remove some: df -i {scene.home.root}")


def network(scene: Scene) -> Iterator[Finding]:
    kind = network_file_system(scene.home.root)
    if kind is not None:
        what = f"{scene.home.root} is on a network file system ({kind}), which loses locks: the bus refuses to start"
        yield Finding("network", what, "export BUS_HOME=$HOME/.local/state/interlock")


def environment(scene: Scene) -> Iterator[Finding]:
    """Variables that an agent inherited from where they meant something."""
    environ = scene.environ
    if not os.path.isabs(os.path.expanduser(environ.get("BUS_HOME", "/"))):
        what = f"BUS_HOME={environ['BUS_HOME']} is relative: it is another home in every directory"
        yield Finding("environment", what, f"export BUS_HOME={scene.home.root}")
    if environ.get("BUS_AUTOSTART") == "0" and scene.asked is None:
        yield Finding("environment", "no supervisor runs, and BUS_AUTOSTART=0 forbids to start one", "bus up")
    left = sorted(MADE_BY_A_RUN & set(environ))
    if left and not _inside_a_launch(scene):
        what = f"{', '.join(left)} come from a launch that is over or was never of this home: they mean nothing here"
        yield Finding("environment", what, f"unset {' '.join(left)}")
    unknown = sorted(
        name for name in environ if name.startswith("BUS_") and name not in MEANT_FOR_USERS | MADE_BY_A_RUN
    )
    if unknown:
        known = ", ".join(sorted(MEANT_FOR_USERS))
        yield Finding("environment", f"{', '.join(unknown)} mean nothing to the bus: known are {known}", "unset them")


def _inside_a_launch(scene: Scene) -> bool:
    """Whether the launch that the environment names still lives."""
    for launch in scene.environ.get("BUS_LAUNCH", "").split(":"):
        result = read_result(scene.home.launches / f"{launch}.jsonl") if launch and "/" not in launch else None
        if result is not None and result.keeper is not None and probe(result.keeper) is Presence.ALIVE:
            return True
    return False
