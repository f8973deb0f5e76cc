"""Survivors: launches whose keepers live, as their own reports tell. Reads the reports; signals nobody."""

import os

from interlock.adapters.launch_result import read_result
from interlock.adapters.paths import Home
from interlock.adapters.process import probe
from interlock.coordinator.states import Survivor
from interlock.protocol.identity import Presence

SUFFIX = ".jsonl"


def survivors(home: Home) -> tuple[Survivor, ...]:
    """Every launch of this home whose keeper is not proved gone, by name."""
    found = []
    try:
        entries = sorted(os.scandir(home.launches), key=lambda entry: entry.name)
    except OSError:
        return ()
    for entry in entries:
        launch, dot, _ = entry.name.rpartition(SUFFIX)
        if not dot or not entry.is_file(follow_symlinks=False):
            continue
        result = read_result(home.launches / entry.name)
        if result.keeper is not None and not result.gone and probe(result.keeper) is not Presence.GONE:
            found.append(Survivor(launch, result.keeper, result.resource, result.unit))
    return tuple(found)
