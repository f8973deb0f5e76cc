"""An event loop in a thread of its own, and calls into it from threads that may be interrupted (Ctrl-C) at any moment.

An interrupted thread may keep a lock that it had just taken, such as that of a `concurrent.futures.Future` or of a
`threading.Event`; a loop that needs the same lock then stands still for ever. So here no lock is needed by both sides:
the loop takes what it is given from its own queue, and says that it is done by a lock which nobody else opens.
"""

import asyncio
import contextlib
import contextvars
import math
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

Answer = TypeVar("Answer")
DEAF_S = 1.0  # a signal that comes in the very moment before a call that waits does not end it: it waits anew so often
CLEAN_UP_S = 15.0  # longer than what gives a hold back waits
CLOSED = "this bus is closed, or not open yet: use it as `with BlockingBus(…) as bus:`"


class LoopThread:
    """An async context manager that is entered, lives and is left on an event loop in a thread of its own.

    The thread is a daemon: a bus that nobody closed (in a notebook, say) would keep the interpreter from ending, and
    what it holds from being given back.
    """

    def __init__(self, manager: AbstractAsyncContextManager[object]) -> None:
        self._manager = manager
        self._thread = threading.Thread(target=self._run, name="interlock", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leave: anyio.CancelScope | None = None  # cancelled to make it leave
        self._tasks: TaskGroup | None = None
        self._pid = os.getpid()
        self._began = False
        self._stopped = False
        self._entered = Gate()
        self._ended = Gate()
        self._error: BaseException | None = None

    def open(self) -> None:
        """Enter it, once. Raises: what entering it raises."""
        try:
            self._thread.start()
            self._began = True
            self._until(self._entered)
            self._raise()
        except BaseException:
            self._close()
            raise

    def close(self) -> None:
        """Cancel the calls, and leave it, as long as that takes; twice is no harm. Raises: what leaving it raises."""
        self._close()
        self._raise()

    def stop(self) -> None:
        """As `close`, without waiting for it."""
        self._stopped = True
        self._soon(self._cancel)

    def call(self, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Run one piece of async work to its end. Interrupted, it is cancelled, or never begins, and is over.

        Raises: what the work raises. RuntimeError: it is not open.
        """
        self._check()
        call = _Call(work)
        try:
            if self._soon(self._begin, call):
                self._until(call.over)
        except BaseException:
            if self._soon(call.withdraw):
                self._until(call.over, CLEAN_UP_S)
            raise
        return call.result()

    @property
    def is_taken_away(self) -> bool:
        """It stands still because the interpreter ends, or is not there: this process was forked off."""
        return sys.is_finalizing() or os.getpid() != self._pid

    # --- in the threads that call --------------------------------------------------------------
    def _check(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError("called on its own event loop, which would wait for itself: use Bus there")

    def _soon(self, what: Callable[..., object], *arguments: object) -> bool:
        """Have the loop run this after all that it was given before; False where it does not run."""
        if self._loop is not None and self._runs():
            with contextlib.suppress(RuntimeError):  # closed
                self._loop.call_soon_threadsafe(what, *arguments, context=_asyncio_context())
                return True
        return False

    def _until(self, gate: "Gate", within_s: float = math.inf) -> None:
        """Return when it is open, when the time is up, and when nobody is there any more who would open it."""
        end = time.monotonic() + within_s
        while not gate.is_open and time.monotonic() < end and self._runs():
            gate.look()

    def _runs(self) -> bool:
        """Not by `Thread.is_alive`, which takes whoever is interrupted within it for one that has ended."""
        return self._began and not self._ended.is_open and not self.is_taken_away

    def _close(self) -> None:
        self._check()
        self.stop()
        self._until(self._ended)

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # no circle with its own traceback

    # --- on the loop ---------------------------------------------------------------------------
    def _run(self) -> None:
        self._began = True
        try:
            contextvars.Context().run(partial(anyio.run, self._serve, backend="asyncio"))
        except BaseException as error:
            self._error = error
        finally:
            self._entered.open()
            self._ended.open()

    async def _serve(self) -> None:
        with anyio.CancelScope() as scope:
            self._leave = scope
            self._loop = asyncio.get_running_loop()
            if self._stopped:
                return
            async with self._manager:
                try:
                    async with anyio.create_task_group() as tasks:
                        self._tasks, self._leave = tasks, tasks.cancel_scope  # what leaves it is not cut short
                        self._entered.open()
                        await anyio.sleep_forever()
                finally:
                    self._tasks = None

    def _cancel(self) -> None:
        if self._leave is not None:
            self._leave.cancel()

    def _begin(self, call: "_Call[Answer]") -> None:
        try:
            if self._tasks is not None:
                self._tasks.start_soon(call.run, self._is_leaving)
            else:
                call.over.open()
        except BaseException as error:
            call.fail(error)

    def _is_leaving(self) -> bool:
        return self._leave is None or self._leave.cancel_called


def _asyncio_context() -> contextvars.Context:
    """The caller's context; whatever runs in its own thread, what runs in this one is asyncio."""
    context = contextvars.copy_context()
    sniffio = sys.modules.get("sniffio")  # where it is installed anyio asks it, and has imported it
    if sniffio is not None:
        context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context


class Gate:
    """Shut until it is opened, for good. Whoever waits may be interrupted, and keeps nothing that the opener needs."""

    def __init__(self) -> None:
        self.is_open = False
        self._lock = threading.Lock()
        self._lock.acquire()

    def open(self) -> None:
        """By one thread."""
        if not self.is_open:
            self.is_open = True
            self._lock.release()

    def look(self) -> None:
        """Return when it is open, or a second has passed."""
        if self._lock.acquire(timeout=DEAF_S):
            self._lock.release()  # for the next who waits; interrupted here, that one sees within a second


class _Call(Generic[Answer]):
    """One piece of async work; what came of it can be read when it is over."""

    def __init__(self, work: Callable[[], Awaitable[Answer]]) -> None:
        self._work = work
        self._scope: anyio.CancelScope | None = None
        self._answers: list[Answer] = []
        self._error: BaseException | None = None
        self.over = Gate()

    async def run(self, is_leaving: Callable[[], bool]) -> None:
        """Do it, unless it was withdrawn before it began. Args: is_leaving: whether all calls are cancelled."""
        if self.over.is_open:
            return
        try:
            with anyio.CancelScope() as self._scope:
                self._answers.append(await self._work())
        except anyio.get_cancelled_exc_class():
            if is_leaving():
                raise
            self._error = CancelledError()  # something that the work waited for was cancelled
        except BaseException as error:
            self._error = error
        finally:
            self.over.open()

    def fail(self, error: BaseException) -> None:
        """It could not begin."""
        self._error = error
        self.over.open()

    def withdraw(self) -> None:
        """Cancel it where it has begun, and else see to it that it never does. On the loop."""
        if self._scope is not None:
            self._scope.cancel()
        else:
            self.over.open()

    def result(self) -> Answer:
        """What it returned. Raises: what it raised; RuntimeError: it did not come to an end, for the loop had."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # no circle with its own traceback
        if not self._answers:
            raise RuntimeError(CLOSED)
        return self._answers[0]
