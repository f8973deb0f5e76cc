"""Posting: files that agents leave are looked at, sorted by their senders, rejected or read. File work only.

    coordinator/new/x ──▶ whose is it? ──▶ coordinator/sorted/<sender>/…      one queue a sender
    <agent>/out/x     ──▶ whole? readable? ──▶ Post                            no message: rejected/ beside a .why

It runs in a worker thread, one look at a time, and never follows what it finds.
"""

import contextlib
import errno
import hashlib
import os
import re
from collections import deque
from collections.abc import Container
from functools import partial
from typing import NamedTuple

import structlog

from interlock.adapters.folders import Folder, Folders
from interlock.adapters.half_written import HalfWritten, stands
from interlock.adapters.rejected_files import put_aside, short_name_of
from interlock.adapters.safe_files import (
    Exchanged,
    Found,
    Unsafe,
    is_same,
    look_at,
    oldest,
    open_directory,
    read_file,
)
from interlock.adapters.safe_files import make_directory as make
from interlock.protocol.codes import Code
from interlock.protocol.envelope import BadEnvelope, Envelope
from interlock.protocol.limits import POST_BYTES_MAX, POSTS_A_LOOK, POSTS_AT_ONCE
from interlock.protocol.names import COORDINATOR
from interlock.protocol.post import read_post, sender_of, too_large

log = structlog.get_logger("posting")
OUT, SORTED = "out", "sorted"
LOOKED_MAX = 2_048  # files of one sender that one look remembers …
SORTED_LOOKED_MAX = 16_384  # … of the coordinator's folder …
LOOKED_TOGETHER_MAX = 65_536  # … and of all together
LOOKS_MAX = 512  # files of one sender that are read in one go
BYTES_AT_ONCE = 4 * 1024 * 1024
PASSES = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM}  # or may
_SORTED_NAME = re.compile(r"\d{20}-\d+-(.*)", re.DOTALL)


class Post(NamedTuple):
    """A file that is a message. Args: called: its name as its sender wrote it."""

    found: Found
    called: str
    envelope: Envelope


class Reject(NamedTuple):
    """A file that is none, and lies in rejected/ by now. Args: sender: "" where nobody can be told."""

    sender: str
    called: str
    code: Code
    why: str
    id: str


class Posting:
    """One per bus."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self.half = HalfWritten()
        self._stuck: set[tuple[int, int, int]] = set()  # device, inode and change time: an inode comes again
        self._told: set[tuple[int, int, int]] = set()
        self._looked: dict[tuple[str, str], deque[Found]] = {}

    def sort(self) -> tuple[list[str], list[Reject], bool]:
        """Move what lies in the coordinator's folder to its senders' queues.

        Returns:
            Whose queues have something, what was rejected, and whether there is more.
        """
        return self._folders.using(COORDINATOR, self._sort) or ([], [], False)

    def read(self, agent: str, source: str, full: Container[str] = ()) -> tuple[list[Post], list[Reject], bool]:
        """Read the oldest files of one sender, from its out/ or from its queue. Half-written ones stay.

        Args:
            full: receivers that take no more just now: what goes to them stays.

        Returns:
            Messages, what was rejected, and whether there may be more.
        """
        owner = COORDINATOR if source == SORTED else agent
        read = self._folders.using(owner, lambda folder: self._read(folder, agent, source, full))
        return read or ([], [], False)

    def remove(self, agent: str, source: str, posts: list[Post]) -> None:
        """What is taken in durably goes."""

        def work(folder: Folder) -> None:
            at, close = _source(folder, agent, source)
            try:
                for post in posts:
                    if is_same(post.found, look_at(post.found.name, at)):  # else it is another message by now
                        os.unlink(post.found.name, dir_fd=at)
                    self.half.done(agent, post.found)
            finally:
                if close:
                    os.close(at)

        self._folders.using(COORDINATOR if source == SORTED else agent, work)

    def reject(self, agent: str, source: str, post: Post, why: str) -> None:
        """The bus could not read it as a message: it goes to rejected/ all the same."""

        def work(folder: Folder) -> None:
            at, close = _source(folder, agent, source)
            try:
                if is_same(post.found, look_at(post.found.name, at)):
                    put_aside(folder, at, post.found.name, post.called, why)
            finally:
                if close:
                    os.close(at)

        self._folders.using(COORDINATOR if source == SORTED else agent, work)

    def _sort(self, folder: Folder) -> tuple[list[str], list[Reject], bool]:
        at = folder["new"]
        waiting = self._look(COORDINATOR, "new", at, SORTED_LOOKED_MAX)
        rejects: list[Reject] = []
        looks = 0
        while waiting and looks < POSTS_A_LOOK and not self.half.is_unheard(COORDINATOR, "new", waiting):
            found = waiting.popleft()
            looks += 1
            read = self._judge(folder, at, found, "")
            if isinstance(read, Reject):
                rejects.append(read)
            elif read is not None:
                try:
                    _into_queue(folder, at, read.found, read.envelope.sender)
                except (OSError, Unsafe) as error:  # taken back since; or it cannot go: nobody else waits
                    if look_at(found.name, at) is not None and self._stays(folder.agent, found, error):
                        log.warning("cannot_sort", file=found.name, sender=read.envelope.sender, why=str(error))
                    continue
                self.half.done(folder.agent, found)
        return os.listdir(folder[SORTED]), rejects, bool(waiting) or looks == POSTS_A_LOOK

    def _read(
        self, folder: Folder, agent: str, source: str, full: Container[str]
    ) -> tuple[list[Post], list[Reject], bool]:
        posts: list[Post] = []
        rejects: list[Reject] = []
        at, close = _source(folder, agent, source)
        try:
            waiting = self._look(agent, source, at, LOOKED_MAX)
            looks, size, stay = 0, 0, False
            while waiting and looks < LOOKS_MAX and len(posts) < POSTS_AT_ONCE and size < BYTES_AT_ONCE:
                if source == OUT and self.half.is_unheard(agent, source, waiting):
                    break
                found = waiting.popleft()
                looks += 1
                read = self._judge(folder, at, found, agent, is_whole=source == SORTED)
                if isinstance(read, Reject):
                    rejects.append(read)
                elif read is not None and read.envelope.to in full:
                    stay = True
                elif read is not None:
                    posts.append(read)
                    size += found.size
            if close and not waiting and not posts:
                with contextlib.suppress(OSError):  # not empty
                    os.rmdir(agent, dir_fd=folder[SORTED])
            if stay:
                self.look_again(agent, source)
            return posts, rejects, bool(waiting or posts or rejects)
        finally:
            if close:
                os.close(at)

    def _look(self, agent: str, source: str, at: int, limit: int) -> deque[Found]:
        """What one look has found and nobody has read yet; a new look where that is nothing."""
        waiting = self._looked.pop((agent, source), None)
        if not waiting:
            waiting = deque(oldest(at, limit, self._is_new if source == SORTED else partial(self._is_due, agent)))
        self._looked[agent, source] = waiting
        while len(self._looked) > 1 and sum(map(len, self._looked.values())) > LOOKED_TOGETHER_MAX:
            self._looked.pop(next(iter(self._looked)), None)
        return waiting

    def look_again(self, agent: str, source: str) -> None:
        """Something of what was read stays: the next look begins with it, so that nothing overtakes it."""
        self._looked.pop((agent, source), None)

    def _judge(
        self, folder: Folder, at: int, found: Found, owner: str, *, is_whole: bool = False
    ) -> Post | Reject | None:
        """Read one file, or put it aside; None where it may still be written."""
        now = look_at(found.name, at)
        if now is None:  # taken back since
            return None
        found, called = now, _called(found.name)
        try:
            if found.why_not:
                raise BadEnvelope(Code.BAD_MESSAGE, found.why_not)
            if found.size > POST_BYTES_MAX:
                raise BadEnvelope(Code.MESSAGE_TOO_LARGE, too_large(found.size))
            if not is_whole and not self.half.is_whole(folder.agent, at, found):
                return None
            data = read_file(found, at, POST_BYTES_MAX + 1)
            envelope = read_post(data, called, owner)
        except Exchanged:
            self.half.note(folder.agent, found, -1)  # so that it is looked at again
            return None
        except (BadEnvelope, Unsafe) as error:
            code = Code(error.refusal.code) if isinstance(error, BadEnvelope) else Code.BAD_MESSAGE
            why = str(error).encode("utf-8", "backslashreplace").decode()  # a name in it may be no text
            sender = owner or _sender(found, at)
            try:
                put_aside(folder, at, found.name, called, why)
            except OSError as failed:
                if self._stays(folder.agent, found, failed):
                    where = str(self._folders.path(folder.agent))
                    log.warning("cannot_reject", folder=where, file=called, why=str(failed))
                return None
            self.half.done(folder.agent, found)
            return Reject(sender, called, code, why, _id(found, b""))
        envelope.id = envelope.id or _id(found, data)
        return Post(found, called, envelope)

    def _stays(self, agent: str, found: Found, why: OSError | Unsafe) -> bool:
        """It cannot go: for a while, then scans try it again; or for good, then it is left. Whether that is news."""
        key, cause = stands(found), why.__cause__ if isinstance(why, Unsafe) else why
        if isinstance(cause, OSError) and cause.errno in PASSES:
            self.half.note(agent, found, -1)
            if key in self._told:
                return False
            self._told.add(key)
        else:
            self._stuck.add(key)
        return True

    def _is_due(self, agent: str, found: Found) -> bool:
        return self._is_new(found) and self.half.is_due(agent, found)

    def _is_new(self, found: Found) -> bool:
        """Not an editor's hidden file."""
        return not found.name.startswith(".") and stands(found) not in self._stuck

    def forget(self) -> None:
        """What was long ago told, or could not go, is seen anew: perhaps it can be done now."""
        self.half.forget()
        self._told.clear()
        self._stuck.clear()


def _source(folder: Folder, agent: str, source: str) -> tuple[int, bool]:
    """The directory that posts are read from, and whether the caller has to close it."""
    if source == OUT:
        return folder[OUT], False
    try:
        return open_directory(agent, folder[SORTED]), True
    except FileNotFoundError:
        raise Unsafe(f"nothing is sorted for {agent}") from None


def _into_queue(folder: Folder, at: int, found: Found, sender: str) -> None:
    """Move a file into its sender's queue. What others have put in the queue's place goes; it is the bus's own."""
    try:
        queue = make(sender, folder[SORTED])
    except Unsafe:
        with contextlib.suppress(FileNotFoundError):  # nothing is in its place: the disk is full
            os.unlink(sender, dir_fd=folder[SORTED])
        queue = make(sender, folder[SORTED])
    try:
        name = f"{found.mtime_ns:020d}-{found.inode}-{short_name_of(found.name)}"
        os.rename(found.name, name, src_dir_fd=at, dst_dir_fd=queue)
    finally:
        os.close(queue)


def _called(name: str) -> str:
    found = _SORTED_NAME.fullmatch(name)
    return found[1] if found else name


def _id(found: Found, data: bytes) -> str:
    """The same file is the same message, however often a crash has it read."""
    # The change time is nobody's to set: `cp -p` gives a second file the first one's time, name, content and, once that
    # one is gone, its inode.
    where = f"{found.device} {found.inode} {found.mtime_ns} {found.ctime_ns} ".encode() + os.fsencode(found.name)
    return "file-" + hashlib.blake2b(where + b"\0" + data, digest_size=16).hexdigest()


def _sender(found: Found, at: int) -> str:
    """Whom to tell of a file that was posted in the coordinator's folder and is no message."""
    head = b""
    if not found.why_not:
        with contextlib.suppress(Unsafe):
            head = read_file(found, at, 4096)
    return sender_of(head, found.name)
