"""Checks of what is held, waited for and running: what a person has to look at."""

import os
from collections.abc import Iterator

from interlock.adapters.doctor.scene import Finding, Scene
from interlock.adapters.listeners import Listener, belongs, listeners
from interlock.protocol.limits import UNREAD_MAX
from interlock.protocol.names import short_name

UNREAD_MANY = UNREAD_MAX // 4
LAUNCH_SETTLES_S = 10.0  # a keeper is up a moment before it is on record


def in_doubt(scene: Scene) -> Iterator[Finding]:
    """What waits for a person, and servers that are down."""
    for each in scene.asked.resources if scene.asked is not None else ():
        name = short_name(each["resource"]) if each.get("declared") else each["resource"]
        doubtful = [unit["unit"] for unit in each.get("units", ()) if unit["state"] == "recovery_required"]
        if doubtful:
            which = f" (units {', '.join(doubtful)})" if doubtful != [""] else ""
            yield Finding(
                "recovery",
                f"{name}{which} is nobody's before a person has looked: {each.get('why', '')}",
                f"bus recover {name}",
            )
        if each.get("down"):
            owner = next((holder["agent"] for holder in each["holders"]), "")
            yield Finding(
                "server_down", f"the server of {name}, which {owner} holds, is down", f"bus --as {owner} restart {name}"
            )


def strangers(scene: Scene) -> Iterator[Finding]:
    """Somebody else's process on the port of a declared server."""
    if scene.config is None:
        return
    ports = {
        port: short_name(key)
        for key, definition in scene.config.resources.items()
        for port in (definition.server.ports if definition.server is not None else ())
    }
    for found in listeners(ports):
        if not any(belongs(found, each.keeper) for each in scene.survivors):
            yield _stranger(found, ports[found.port])


def nobodys_launches(scene: Scene) -> Iterator[Finding]:
    """Keepers that live and that nothing knows of."""
    if scene.asked is None:
        if scene.survivors and not scene.lock_pid:
            what = f"{len(scene.survivors)} launches run (servers or commands), and no supervisor watches them"
            yield Finding("launches", what, "bus up")
        return
    known = scene.asked.health["launches"]
    for each in scene.survivors if known is not None else ():
        if each.launch not in known and _is_older(scene, each.launch):
            what = f"{each.launch} runs under keeper pid {each.keeper.pid}, and the bus does not know of it"
            yield Finding("launches", what, f"kill -TERM {each.keeper.pid}")


def agents(scene: Scene) -> Iterator[Finding]:
    """Owners whose end nobody would notice, and messages that nobody reads."""
    for each in scene.asked.agents if scene.asked is not None else ():
        name = each["agent"]
        if each["presence"] == "unknown" and each["holds"]:
            what = (
                f"{name} holds {', '.join(each['holds'])}, and is bound to no process: if it vanishes, nobody is told"
            )
            yield Finding("unbound", what, f"bus join {name} --pid PID, with the pid of its program")
        if each["unread"] >= UNREAD_MANY:
            what = f"{each['unread']} messages to {name} are unread; at {UNREAD_MAX} its senders are refused"
            yield Finding("unread", what, f"bus --as {name} inbox")


def _stranger(found: Listener, name: str) -> Finding:
    who = (
        f"pid {found.pid} ({found.command})"
        if found.pid is not None
        else f"a process of {found.user or 'another user'}"
    )
    end = f"kill {found.pid}, if it is yours" if found.pid is not None else f"find it: sudo lsof -i :{found.port}"
    return Finding("port", f"port {found.port} of {name} is held by {who}, which the bus did not start", end)


def _is_older(scene: Scene, launch: str) -> bool:
    try:
        return scene.now_s - os.lstat(scene.home.launches / f"{launch}.jsonl").st_mtime > LAUNCH_SETTLES_S
    except OSError:
        return False
