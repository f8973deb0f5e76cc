"""`bus run`: waits, prepares, runs, gives back, whatever happens. Exit codes as those of timeout(1).

    REQUEST (a ticket of its own) ──▶ GRANTED ──▶ keeper up ──▶ ADMIT (durable) ──▶ GO ──▶ the command
    its end, however it comes ──▶ its whole tree gone ──▶ released

The command keeps this terminal, directory, environment and standard streams. If this process is killed while the
command runs, the keeper ends the command's tree, and the bus sees it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from types import FrameType
from typing import TYPE_CHECKING

import typer

from interlock.adapters.cli.app import Given
from interlock.adapters.cli.connection import Connection, Lost, new_id
from interlock.adapters.cli.frames import Frame
from interlock.adapters.cli.options import Failure, fail, say_err
from interlock.protocol.codes import Exit

if TYPE_CHECKING:
    from interlock.adapters.launches import Gone

TOLD_BY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
LOOK_S = 15.0
LEAVE_S = 2.0  # how long a command's last processes may take to go before it is said that they stay


class Told(Exception):
    """A signal told us to end. Args: signum."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


def command(
    words: list[str] = typer.Argument(..., metavar="-- COMMAND…"),
    resource: list[str] = typer.Option([], "--resource", "-r", metavar="R", help="What the command needs."),
    time_: str = typer.Option("", "--time", help="How long you expect it to take."),
    wait: str = typer.Option("", "--wait", help="How long to wait for the grant (default: [bus] wait, 5m)."),
    purpose: str = typer.Option("", "--for", help="What for; default: the command."),
) -> int:
    """Run a command under a resource: wait for it, run, give it back, whatever happens."""
    try:
        return _command(words, resource, time_, wait, purpose)
    except Failure as failure:
        usage = failure.exit_code in {Exit.USAGE, Exit.CONFIG}
        code = failure.exit_code if usage or failure.exit_code >= Exit.RUN_TIMED_OUT else Exit.RUN_BUS_FAILED
        return fail(Failure(int(code), str(failure), failure.code), Given.options.json)


def _command(words: list[str], resources: list[str], time_: str, wait: str, purpose: str) -> int:
    from interlock.adapters.cli.asking import here, milliseconds

    if not resources:
        raise Failure(64, "say what the command needs: bus run --resource R -- COMMAND")
    if len(resources) > 1:
        why = "several resources at once come with a later version: name one"
        raise Failure(64, why, "CAPABILITY_DENIED")
    worktree = here()
    request = {
        "type": "REQUEST",
        "resource": resources[0],
        "worktree": os.getcwd() if worktree == "-" else worktree,
        "purpose": (purpose or " ".join(words))[:1024],
        "time_ms": milliseconds(time_, "--time"),
        "run": True,
        "under": int(os.environ.get("BUS_FENCE", "0")) if os.environ.get("BUS_FENCE", "0").isdigit() else 0,
    }
    wait_ms = milliseconds(wait, "--wait") if wait not in {"0", "0s"} else 0
    signals = _Signals()
    with Connection(Given.options, quiet_about=resources[0]) as connection:
        connection.agent()
        _check_launches(connection)
        ticket = new_id()
        try:
            granted = _wait_for_grant(connection, ticket, request, wait_ms)
        except (Told, KeyboardInterrupt) as told:
            _withdraw(connection, ticket, resources[0])
            return 128 + (told.signum if isinstance(told, Told) else signal.SIGINT)
        signals.keep()
        return _run(connection, resources[0], granted, words, signals)


def _check_launches(connection: Connection) -> None:
    """Whether the keeper will be able to note how the command ends. Raises Failure before anybody has waited."""
    launches = connection.home.launches
    probe = launches / f"{secrets.token_hex(8)}.probe"
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        probe.unlink()
    except OSError as error:
        why = (
            f"bus run notes in {launches} how its command ends, and may not write there ({error.strerror}; a sandbox?)"
        )
        way = "allow it to write there, or use bus request and bus release"
        raise Failure(Exit.RUN_BUS_FAILED, f"{why}: {way}") from None


def _wait_for_grant(connection: Connection, ticket: str, request: Frame, wait_ms: int | None) -> Frame:
    """GRANTED's body. Raises Failure: 124 when time is up, after withdrawing; 125 where it is refused.

    Asking again with the same id asks what is true now: that is all it does whenever anything has happened.
    """
    limit_ms = connection.welcome.get("run_wait_ms", 300_000) if wait_ms is None else wait_ms
    until = time.monotonic() + limit_ms / 1000
    shown = ""
    while True:
        frame = _ask(connection, ticket, request, until)
        body: Frame = frame["body"]
        if body.get("type") == "GRANTED":
            return body
        if body.get("type") != "QUEUED":
            raise Failure(int(frame.get("exit") or 77), frame.get("text", "refused"))
        if body.get("holder") == connection.agent() and _came_to_me(connection, request["resource"]):
            _withdraw(connection, ticket, request["resource"])
            ticket = new_id()  # it has what its agent has, as if it had been started now
            continue
        if time.monotonic() >= until:
            _withdraw(connection, ticket, request["resource"])
            why = f"{request['resource']} was not free in time; your place is kept for 2 min: run the same again"
            raise Failure(Exit.RUN_TIMED_OUT, why)
        line = "waiting: " + frame["text"].partition("; do not use")[0]
        if line != shown and wait_ms != 0:
            say_err(line)
        shown = line
        if body["request_id"] != ticket:  # it waits for the agent's own ticket, whose news go to those that follow it
            connection.tell("supervisor", body={"type": "WAIT", "resource": request["resource"], "follow": True})
        news = _next_news(connection, body["key"], min(LOOK_S, until - time.monotonic()))
        if news.get("body", {}).get("type") == "REVOKED" and news["body"].get("request_id") == ticket:
            raise Failure(Exit.RUN_BUS_FAILED, news["text"].partition(" ")[2], news["body"].get("code", ""))


def _came_to_me(connection: Connection, resource: str) -> bool:
    """The agent's own request was granted while its `bus run` waited: that would wait for itself."""
    body = connection.ask("supervisor", body={"type": "CHECK", "resource": resource})["body"]
    return bool(body.get("type") == "GRANTED")


def _ask(connection: Connection, ticket: str, request: Frame, until: float) -> Frame:
    """What is true of the ticket now; a supervisor that is gone is waited for, as the grant is: the place stays."""
    shown = ""
    while True:
        try:
            return connection.ask("coordinator", message_id=ticket, body=request)
        except Failure as failure:
            if failure.exit_code != Exit.UNAVAILABLE or time.monotonic() >= until:
                raise
            if str(failure) != shown:
                say_err(f"waiting: {failure}")
            shown = str(failure)
            time.sleep(0.5)


def _next_news(connection: Connection, key: str, within_s: float) -> Frame:
    """What was said of that resource; an empty frame where the connection is lost, or it is time to look again."""
    until = time.monotonic() + within_s
    with contextlib.suppress(Lost):
        while (left := until - time.monotonic()) > 0:
            news = connection.receive(left)
            if "reply_to" not in news and news.get("body", {}).get("key") == key:
                return news
    return {}


def _run(connection: Connection, resource: str, granted: Frame, words: list[str], signals: _Signals) -> int:
    import anyio

    return anyio.run(_execute, connection, resource, granted, words, signals)


async def _execute(connection: Connection, resource: str, granted: Frame, words: list[str], signals: _Signals) -> int:
    """Start the keeper, have the command admitted, let it go, and bring home how it ended."""
    import anyio
    import msgspec

    from interlock.adapters.launches import Ended, Gone, LaunchFailed, LaunchSpec, new_launch, start_keeper

    launch = new_launch("run", granted["fence"])
    spec = LaunchSpec(
        argv=tuple(words),
        cwd=os.getcwd(),
        env={**os.environ, **_variables(connection, granted)},
        result=str(connection.home.launches / f"{launch}.jsonl"),
        launch=launch,
        attached=True,
        spare=tuple(tuple(words) for words in connection.welcome.get("spare", ())),
    )
    try:
        keeper = await start_keeper(spec, stdin=None, stdout=None, stderr=None, new_session=False)
    except LaunchFailed as error:
        _give_back(connection, resource, granted)
        raise Failure(Exit.RUN_BUS_FAILED, str(error)) from None
    identity = msgspec.to_builtins(keeper.identity)
    code, ended, gone = int(Exit.RUN_BUS_FAILED), False, False
    refused: BaseException | None = None
    try:
        async with anyio.create_task_group() as tasks:
            with anyio.open_signal_receiver(*signals.heard) as coming:

                async def pass_on() -> None:
                    async for signum in coming:
                        signals.early.append(signum)
                        if signum != signal.SIGINT:
                            keeper.stop()
                        elif not os.isatty(0):  # from a terminal the command has it already
                            keeper.signal(signum)

                if signals.early:
                    raise Told(signals.early[0])
                tasks.start_soon(pass_on)
                body = {"type": "ADMIT", "holds": {granted["key"]: granted["fence"]}, "launch": launch}
                frame = connection.ask("supervisor", body={**body, "keeper": identity, "command": words[0]})
                if frame["body"].get("type") != "ADMITTED":
                    raise Failure(Exit.RUN_BUS_FAILED, frame.get("text", "the command was not admitted"))
                await keeper.go()
                with anyio.CancelScope() as scope:
                    async for event in keeper.events:
                        if isinstance(event, Ended):
                            ended = True
                            code = event.code if event.code is not None else 128 + (event.signal or 0)
                            if event.error:
                                say_err(f"bus: {words[0]}: {event.error.partition(': ')[2] or event.error}")
                            scope.deadline = anyio.current_time() + LEAVE_S
                        if isinstance(event, Gone):
                            gone = True
                            _say_spared(event)
                tasks.cancel_scope.cancel()
    except* Failure as group:
        _give_back(connection, resource, granted)
        refused = group.exceptions[0]
    except* Told as group:  # nothing has been executed: the keeper leaves without GO
        _give_back(connection, resource, granted)
        code = 128 + next(each.signum for each in group.exceptions if isinstance(each, Told))
    except* LaunchFailed as group:
        say_err(f"bus: {group.exceptions[0]}")
    finally:
        keeper.close()
    if refused is not None:
        raise refused
    if not ended and signals.early:  # told between the record and GO: the keeper left, and the bus sees it
        code = 128 + signals.early[0]
    elif not ended and not signals.early:
        say_err(
            f"bus: the keeper of {words[0]} was ended from outside: nobody knows how its command ended; see bus status"
        )
    if ended and not gone:
        say_err(f"bus: processes of {words[0]} are left in the background: {resource} stays taken until they end")
    elif gone and not granted.get("shared"):
        _report(connection, launch)
    return code


def _say_spared(gone: Gone) -> None:
    """What lives on behind the command; it counts for nothing, and whoever looks for it knows whose it was."""
    for each in gone.spared:
        say_err(f"bus: left running, as [bus] spare says: {each.command or 'a daemon'} (pid {each.pid})")


def _variables(connection: Connection, granted: Frame) -> dict[str, str]:
    return {
        "BUS_RESOURCE": granted["key"],
        "BUS_FENCE": str(granted["fence"]),
        "BUS_UNIT": granted.get("unit", ""),
        "BUS_AGENT": connection.agent(),
        "BUS_WORKTREE": granted.get("worktree", "-"),
        "BUS_RESOURCE_URL": granted.get("url", ""),
        "BUS_HOME": str(connection.home.root),
    }


def _report(connection: Connection, launch: str) -> None:
    """Tell the bus that the tree is gone, so that our exit means that the resource is free. It would notice anyway."""
    body = {"type": "ENDED", "launch": launch}
    with contextlib.suppress(Failure, Lost):
        connection.ask("supervisor", body=body, again=False)


def _give_back(connection: Connection, resource: str, granted: Frame) -> None:
    """Nothing was executed: the grant goes back at once."""
    if granted.get("shared"):
        return
    try:
        connection.ask("coordinator", again=False, body={"type": "RELEASE", "resource": granted["key"],
                                                         "fence": granted["fence"]})  # fmt: skip
    except (Failure, Lost):
        say_err(f"bus: {resource} could not be given back: it is free again once this process is gone")


def _withdraw(connection: Connection, ticket: str, resource: str) -> None:
    """Leave the queue; a second Ctrl-C leaves it to the bus, which sees that we are gone."""
    try:
        body = {"type": "CANCEL", "resource": resource, "request_id": ticket}
        frame = connection.ask("coordinator", again=False, body=body)
        if frame["body"].get("type") == "REFUSED":  # granted at the same moment
            held = connection.ask("coordinator", again=False, message_id=ticket, body={
                "type": "REQUEST", "resource": resource, "run": True})["body"]  # fmt: skip
            if held.get("type") == "GRANTED":
                _give_back(connection, resource, held)
    except (Failure, Lost, KeyError):
        pass


class _Signals:
    """What we are told by signals: first they end the wait, then they are kept until there is a command to tell.

    `heard`: those that our caller did not have ignored (`nohup bus run` means it). `early`: those that have come.
    """

    def __init__(self) -> None:
        self.early: list[int] = []
        self.heard = [signum for signum in TOLD_BY if signal.getsignal(signum) is not signal.SIG_IGN]
        for signum in self.heard:
            signal.signal(signum, self._end_the_wait)

    def keep(self) -> None:
        for signum in self.heard:
            signal.signal(signum, self._keep)

    def _end_the_wait(self, signum: int, _: FrameType | None) -> None:
        if signum == signal.SIGINT:
            raise KeyboardInterrupt
        raise Told(signum)

    def _keep(self, signum: int, _: FrameType | None) -> None:
        self.early.append(signum)
