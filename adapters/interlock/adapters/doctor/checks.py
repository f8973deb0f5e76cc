"""The checks, in the order in which their findings are shown. A new one is a function and a line here."""

from collections.abc import Callable, Iterator

from interlock.adapters.doctor import declared, gate, home, hooks, inboxes, login, machine, process, resources, trusted
from interlock.adapters.doctor.scene import Finding, Scene

Check = Callable[[Scene], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    machine.network,
    machine.disk,
    machine.environment,
    home.folders,
    home.files,
    home.foreign,
    home.configuration,
    trusted.trust,
    trusted.tokens,
    hooks.hooks,
    declared.windows,
    declared.spared,
    login.service,
    process.supervisor,
    process.taken_down,
    process.sockets,
    home.database,
    process.whole_log,
    home.state_files,
    inboxes.folders,
    inboxes.rejected,
    inboxes.waiting_posts,
    inboxes.relays,
    process.log_errors,
    resources.in_doubt,
    gate.controllers,
    gate.commands_in_doubt,
    resources.strangers,
    resources.nobodys_launches,
    resources.agents,
)


def examine(scene: Scene) -> list[Finding]:
    """Every finding of every check. One that fails says so, and keeps no other from its turn."""
    found: list[Finding] = []
    for check in CHECKS:
        try:
            found += check(scene)
        except Exception as error:
            name = f"{check.__module__.rpartition('.')[2]}.{check.__name__}"
            what = f"the check {name} failed itself ({type(error).__name__}: {error})"
            found.append(Finding("doctor", what, "please report it"))
    return found
