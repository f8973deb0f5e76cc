"""Checks of the gate: policies that nobody can grant by, and commands whose end a person has to confirm."""

from collections.abc import Iterator

from interlock.adapters.doctor.scene import Finding, Scene
from interlock.protocol.names import short_name


def controllers(scene: Scene) -> Iterator[Finding]:
    """A policy whose controller is gone: whoever waits there waits until a person names another."""
    for each in scene.asked.resources if scene.asked is not None else ():
        policy = each.get("policy") or {}
        if policy.get("controller_gone"):
            name = short_name(each["resource"]) if each.get("declared") else each["resource"]
            what = f"{policy['controller']}, the controller of {name}, is gone: nobody can grant it"
            yield Finding("controller", what, "bus policy set, with a controller that is here")


def commands_in_doubt(scene: Scene) -> Iterator[Finding]:
    """Commands of which nobody can say whether they run."""
    for each in scene.asked.commands if scene.asked is not None else ():
        if each["state"] == "recovery_required":
            what = f"nobody can say how {each['command']} of {each['agent']} ended: {each.get('why', '')}"
            yield Finding("command", what, f"bus recover {each['launch']}")
