"""The definition of a resource: what its configuration says, as the machine and the adapters need it.

One resource has one definition; where it has several units, each unit's own follows from it: `server_of`, `command_of`.
"""

from enum import StrEnum

import msgspec

UNIT = "{unit}"  # stands for the unit's name in what is written once for all units


class Kind(StrEnum):
    """What a hand-over takes: nothing (lock), a program stopped and started (server), or a few commands (command)."""

    LOCK = "lock"
    SERVER = "server"
    COMMAND = "command"


class ServerDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the one server is started, known to be ready, and stopped. Source: contract §4.

    Args:
        start: command line for the user's login shell, run in the owner's worktree; it stays in the foreground, or puts
            its server into the background and ends with 0.
        url: what GRANTED tells the owner, and `BUS_RESOURCE_URL`.
        health: a URL that must answer 200 before GRANTED; empty: not asked.
        ready_line: must have been printed before GRANTED; empty: not asked.
        ports: free on IPv4 and IPv6 before the start, and the server's own after it; of a pool texts with `{unit}`.
        start_timeout_ms: until it is ready; `prepare` has as long, of its own.
        stop_timeout_ms: between SIGTERM to the whole process tree and SIGKILL.
        prepare: command line, run in a new owner's worktree before the start; it and all that it started must end,
            with 0. `bus restart` does not run it. Empty: nothing.
        env: variables on top of the user's own, in order.
        unit_ports: ports of a pool, each with `{unit}` in it; a unit's own definition has them among `ports`.
        terminal: `"tmux"`: it runs in a window that a person can attach to; `"none"`: its output goes to its log alone.
        spare: daemons that outlive it, neither counted nor stopped: each a program's name, and arguments it must have.
    """

    start: str
    url: str = ""
    health: str = ""
    ready_line: str = ""
    ports: tuple[int, ...] = ()
    start_timeout_ms: int = 5 * 60_000
    stop_timeout_ms: int = 30_000
    prepare: str = ""
    env: tuple[tuple[str, str], ...] = ()
    unit_ports: tuple[str, ...] = ()
    terminal: str = "none"
    spare: tuple[tuple[str, ...], ...] = ()


class CommandDefinition(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is done at a hand-over of the kind `command`; each line is optional. Source: contract §4.

    Args:
        stop: run in the last owner's worktree before another worktree gets it.
        prepare: run in the new owner's worktree.
        verify: run there too, after it; must end with 0 before GRANTED.
        step_timeout_ms: for each of them.
        repeatable: one that was interrupted may simply be run again, without asking anybody.
        env: variables on top of the user's own, in order.
        spare: daemons that outlive it, neither counted nor stopped: each a program's name, and arguments it must have.
    """

    stop: str = ""
    prepare: str = ""
    verify: str = ""
    step_timeout_ms: int = 2 * 60_000
    repeatable: bool = False
    env: tuple[tuple[str, str], ...] = ()
    spare: tuple[tuple[str, ...], ...] = ()


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """One resource. `units` are its capacity, granted in this order; an ordinary one has the single unit "".

    Args:
        kind: what a hand-over takes: nothing (lock), a program (server), or a few commands (command).
        units: the names of what there is more than one of, such as `["0", "1"]` for two GPUs; the holder is told which
            one it has (`BUS_UNIT`), and `{unit}` in other keys stands for it.
        poll_ms: how often a silent owner is asked while others wait.
        claim_ms: a queued grant nobody has noticed for this long passes on, if others wait.
        reservation_ms: an unused grant of `bus run` lasts this long.
        time_max_ms: the longest declared time that polls respect, and how long the place of a silent absent one stays.
        server: present for Kind.SERVER only. command: for Kind.COMMAND only.
        revoke_grace_ms: between REVOKED and stopping what stands there.
    """

    kind: Kind = Kind.LOCK
    units: tuple[str, ...] = ("",)
    poll_ms: int = 3 * 60_000
    claim_ms: int = 2 * 60_000
    reservation_ms: int = 30_000
    time_max_ms: int = 30 * 60_000
    server: ServerDefinition | None = None
    command: CommandDefinition | None = None
    revoke_grace_ms: int = 5_000


def server_of(definition: Definition, unit: str) -> ServerDefinition | None:
    """The server that one unit runs: the pool's, with the unit's name in place of every `{unit}`."""
    server = definition.server
    if server is None or not unit:
        return server
    return msgspec.structs.replace(
        server,
        start=server.start.replace(UNIT, unit),
        url=server.url.replace(UNIT, unit),
        health=server.health.replace(UNIT, unit),
        ready_line=server.ready_line.replace(UNIT, unit),
        ports=(*server.ports, *(int(port.replace(UNIT, unit)) for port in server.unit_ports)),
        prepare=server.prepare.replace(UNIT, unit),
        env=tuple((name, value.replace(UNIT, unit)) for name, value in server.env),
        unit_ports=(),
    )


def command_of(definition: Definition, unit: str) -> CommandDefinition | None:
    """The commands of one unit, likewise."""
    command = definition.command
    if command is None or not unit:
        return command
    return msgspec.structs.replace(
        command,
        stop=command.stop.replace(UNIT, unit),
        prepare=command.prepare.replace(UNIT, unit),
        verify=command.verify.replace(UNIT, unit),
        env=tuple((name, value.replace(UNIT, unit)) for name, value in command.env),
    )
