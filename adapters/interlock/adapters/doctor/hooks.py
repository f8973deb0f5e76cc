"""Checks of this repository's hooks: those that were installed are still called, and what they call is there."""

import os
from collections.abc import Iterator

from interlock.adapters.doctor.scene import Finding, Scene
from interlock.adapters.git import place_of
from interlock.adapters.territory.hook_files import look, why_off
from interlock.adapters.territory.hook_place import OWN, NoPlace, hook_place
from interlock.adapters.territory.hook_record import read_record
from interlock.protocol.visible import visible

AGAIN = "bus hooks install, or bus hooks remove if that is meant"


def hooks(scene: Scene) -> Iterator[Finding]:
    """Of the repository that the command is called in; git is asked only where hooks were installed."""
    del scene
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:
        return
    place = place_of(here)
    record = read_record(os.path.join(place.common, OWN)) if place is not None else None
    if place is None or record is None:
        return
    try:
        at = hook_place(place.worktree)
    except NoPlace as error:
        yield Finding(
            "hooks", f"whether the hooks of {visible(place.common)} are called cannot be told: {error}", AGAIN
        )
        return
    seen = look(at)
    if not seen.works:
        what = f"the hooks of {visible(place.common)} are switched off: {visible(why_off(at, seen))}"
        yield Finding("hooks", what, AGAIN)
    if record.bus and not os.access(record.bus, os.X_OK):
        yield Finding("hooks", f"the hooks of {visible(place.common)} call {visible(record.bus)}, which is gone", AGAIN)
