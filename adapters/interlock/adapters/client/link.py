"""A link: one program's session with the bus, which outlives supervisors.

    ask ──▶ questions ──▶ wire ──▶ answer, by its id        a wire that ends: hello again, every open question again
                            └────▶ news ──▶ whoever listens

Nothing is ever done twice: a question keeps its id. It knows frames, not what they mean.
"""

import logging
import os
from collections.abc import Callable
from typing import Any

import anyio
from anyio.abc import TaskGroup

from interlock.adapters.ci_identity import names_of_a_run
from interlock.adapters.client.errors import BusError, BusUnavailable, Refused
from interlock.adapters.client.wire import (
    ANSWER_S,
    SILENT,
    Away,
    Body,
    Frame,
    Gone,
    Wire,
    body_of,
    here,
    line_of,
    open_wire,
)
from interlock.adapters.given_token import NoToken, given_token
from interlock.coordinator.ids import new_id
from interlock.protocol import control, messages
from interlock.protocol.codes import Code
from interlock.protocol.limits import MESSAGE_BYTES_MAX

log = logging.getLogger("interlock.client")
PATIENCE_S = 10.0  # how long an answer is waited for, a new supervisor included
AGAIN_S = (0.02, 0.05, 0.1, 0.2, 0.4)  # between attempts to connect; then the last one, again and again
_secrets: dict[int, str] = {}  # of this process, and not of what it was forked from


class _Question:
    """One message that waits for its answer."""

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.is_sent = False
        self.answer: Body | None = None
        self.failure: BusError | None = None
        self.done = anyio.Event()


class Link:
    """Args: agent, how: the name that was given, and where. program: the agent is this program. home: as --home.
    token: "" for what the environment gives."""

    def __init__(self, agent: str, how: str, *, program: bool, takeover: bool, home: str, token: str = "") -> None:
        self.agent = agent
        self.home = home
        self.is_program = program
        self.on_news: Callable[[Frame, Body], None] = lambda frame, body: None
        self.on_return: Callable[[], None] = lambda: None
        self.on_end: Callable[[str], None] = lambda why: None
        self._how = how
        self._token = token
        self._takeover = takeover
        self._incarnation = 0
        self._wire: Wire | None = None
        self._questions: dict[str, _Question] = {}
        self._unsent: dict[str, _Question] = {}
        self._wake: anyio.Event | None = None  # of whoever writes now
        self._is_starting = False
        self._problem = SILENT
        self._refused: Refused | None = None

    # --- asking -------------------------------------------------------------------------------
    async def ask(
        self, to: str, content: dict[str, object], message_id: str = "", *, sent: list[bool] | None = None,
        patience_s: float = PATIENCE_S,
    ) -> Body:  # fmt: skip
        """Send one message and wait for its answer, over restarts of the supervisor.

        Args:
            to: "coordinator", "supervisor" or an agent. content: `body` or `text`, and what else an envelope has.
            patience_s: how long a supervisor that is away is waited for.
            sent: gets True, however this ends, if the message may have reached the bus.

        Raises:
            Refused: the bus says no. BusUnavailable: nobody answered in time.
        """
        if self._refused is not None:
            raise self._refused
        message_id = message_id or new_id()
        question = _Question(_line({"id": message_id, "to": to, **content}))
        self._questions[message_id] = self._unsent[message_id] = question
        if self._wake is not None:
            self._wake.set()
        try:
            await self._patiently(question, patience_s)
        finally:
            del self._questions[message_id]
            self._unsent.pop(message_id, None)
            if sent is not None and question.is_sent:
                sent.append(True)
        if question.failure is not None:
            raise question.failure
        assert question.answer is not None
        if isinstance(question.answer, messages.Refused):
            raise Refused(question.answer.code, question.answer.why)
        return question.answer

    async def _patiently(self, question: _Question, patience_s: float) -> None:
        while True:
            with anyio.move_on_after(patience_s):
                await question.done.wait()
                return
            if not self._is_starting:  # that takes its own time, which is bounded
                raise BusUnavailable(self._problem)

    # --- the session ----------------------------------------------------------------------------
    async def open(self) -> None:
        """The first connection. Raises BusUnavailable, Refused."""
        until_s = anyio.current_time() + PATIENCE_S
        while self._wire is None:
            try:
                self._wire = await self._greet(start=True)
            except Away:
                if anyio.current_time() > until_s:
                    raise
                await anyio.sleep(AGAIN_S[-1])

    async def run(self) -> None:
        """Serve until cancelled; raises nothing: a failure is the answer to what was asked."""
        tries = 0
        while self._refused is None:
            try:
                if self._wire is None:
                    self._wire = await self._greet(start=bool(self._questions))
                    self.on_return()
                tries = 0
                await self._serve(self._wire)
            except (BusUnavailable, Gone) as error:
                self._problem = str(error) or self._problem
                log.debug("no connection: %s", self._problem)
            except Refused as refused:  # somebody else is this agent now
                self._give_up(refused)
            except Exception as error:  # our own fault: whoever waits hears of it
                log.exception("the link failed")
                self._give_up(Refused(Code.INTERNAL, f"a fault of the client itself ({type(error).__name__})"))
            finally:
                self._drop()
            await anyio.sleep(AGAIN_S[min(tries, len(AGAIN_S) - 1)])
            tries += 1

    async def close(self) -> None:
        """End it, from here."""
        self._give_up(Refused(Code.TARGET_ENDED, "this Bus is closed: open another one"))
        self._drop()

    def _give_up(self, refused: Refused) -> None:
        self._refused = refused
        for question in self._questions.values():
            question.failure = refused
            question.done.set()
        self.on_end(refused.why)

    def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    async def _greet(self, *, start: bool) -> Wire:
        """Connect, say hello, join where the program is the agent itself, and follow its news."""
        self._is_starting = start
        try:
            wire = await open_wire(self.home, self.agent, start=start)
        finally:
            self._is_starting = False
        try:
            with anyio.fail_after(ANSWER_S):
                await self._introduce(wire)
        except TimeoutError:
            wire.close()
            raise BusUnavailable(SILENT) from None
        except Gone:
            wire.close()
            raise Away("the supervisor closes each connection at once: see bus up --foreground") from None
        except BaseException:
            wire.close()
            raise
        self._unsent = dict(self._questions)
        return wire

    async def _introduce(self, wire: Wire) -> None:
        hello: dict[str, Any] = {"agent": self.agent, "how": self._how, "cwd": here()}
        hello |= {"user": os.environ.get("USER", "") if os.isatty(0) else "", "incarnation": self._incarnation}
        hello |= {} if self.agent else names_of_a_run(os.environ)
        token = self.token()
        await wire.send({"hello": hello | ({"token": token} if token else {})})
        welcome = None
        while welcome is None:
            welcome = (await wire.receive()).welcome
        if self.is_program and welcome.code == Code.CAPABILITY_DENIED:
            raise Refused(welcome.code, welcome.why)
        self.agent = welcome.agent
        self._incarnation = welcome.incarnation
        if self.is_program:
            await self._join(wire)
        if self.agent:
            await wire.send({"id": "follow", "to": "supervisor", "body": control.Wait("*", True)})
            while (await wire.receive()).reply_to != "follow":
                pass

    def token(self) -> str:
        """What says for certain who this is, "" for nothing. Raises Refused where it cannot be read."""
        try:
            return self._token or given_token()
        except NoToken as error:
            raise Refused(Code.CAPABILITY_DENIED, str(error)) from None

    async def _join(self, wire: Wire) -> None:
        secret = _secrets.setdefault(os.getpid(), new_id() + os.urandom(16).hex())
        join = control.JoinBus(self.agent, takeover=self._takeover, session=secret)
        await wire.send({"id": f"join-{new_id()}"[:64], "to": "supervisor", "body": join})
        while True:
            body = body_of(await wire.receive())
            match body:
                case messages.Joined(incarnation=incarnation):
                    self._incarnation = incarnation
                    self._takeover = False  # it was meant once
                    return
                case messages.Refused(code=Code.JOURNAL_UNAVAILABLE, why=why):
                    raise BusUnavailable(why)
                case messages.Refused(code=code, why=why):
                    raise Refused(code, why)

    async def _serve(self, wire: Wire) -> None:
        """Write what is asked and read what comes, until the wire ends. Raises Gone."""
        ended: list[Exception] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._until_it_ends, self._write, wire, tasks, ended)
            tasks.start_soon(self._until_it_ends, self._read, wire, tasks, ended)
        if ended:
            raise ended[0]

    async def _until_it_ends(self, work: Any, wire: Wire, tasks: TaskGroup, ended: list[Exception]) -> None:
        try:
            await work(wire)
        except Exception as error:
            ended.append(error)
            tasks.cancel_scope.cancel()

    async def _write(self, wire: Wire) -> None:
        """One task writes, so that a caller who is cancelled never leaves half a line."""
        while True:
            wake = self._wake = anyio.Event()
            for question in self._unsent.values():
                question.is_sent = True
            lines = b"".join(question.line for question in self._unsent.values())
            self._unsent = {}
            if lines:
                await wire.send(lines)
            else:
                await wake.wait()

    async def _read(self, wire: Wire) -> None:
        while True:
            frame = await wire.receive()
            for note in frame.notes:
                log.info("%s", note)
            body = body_of(frame)
            question = self._questions.get(frame.reply_to)
            if question is not None and body is not None:
                question.answer = body
                question.done.set()
            elif question is not None:
                question.failure = Refused(Code.INTERNAL, "a newer bus gives an answer that this program cannot read")
                question.done.set()
            elif isinstance(body, messages.Refused):  # a line that it could not read: it does not know whose
                log.warning("%s", frame.text)
                for question in [*self._questions.values()] if len(self._questions) == 1 else ():
                    question.answer = body
                    question.done.set()
            elif body is not None and not frame.reply_to:
                self.on_news(frame, body)


def _line(envelope: dict[str, object]) -> bytes:
    """The line of an envelope. Raises Refused for what the bus would not read: it could not say whose line that was."""
    try:
        line = line_of(envelope)
    except UnicodeEncodeError:
        raise Refused(
            Code.BAD_MESSAGE, "the text holds a lone surrogate, which is no character: leave it out"
        ) from None
    said = len(line_of(envelope["body"])) if "body" in envelope else len(str(envelope["text"]).encode())
    if said > MESSAGE_BYTES_MAX:
        why = f"the message has {said} bytes, at most {MESSAGE_BYTES_MAX} are taken: put it into a file, send its path"
        raise Refused(Code.MESSAGE_TOO_LARGE, why)
    return line
