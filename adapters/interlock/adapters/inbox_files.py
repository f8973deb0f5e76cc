"""Delivery: an agent's unread messages as files in its `new/`; one that it moves to `cur/` is read.

    inbox (records) ──▶ new/<seq>.<TYPE>.json          missing: written again
    cur/<seq>.<TYPE>.json ──▶ Ack                       read by a command: moved to cur/; withdrawn: taken out of new/

A projection of the records that is compared, never believed: what is right follows from the inbox alone. No line of
this is synchronized to the disk, for whatever is missing after a crash is written again.
"""

import hashlib
import os
import re

import msgspec

from interlock.adapters.folders import Folder, Folders
from interlock.adapters.safe_files import Unsafe, look_at, read_file, write_file
from interlock.coordinator.session import Frame, answer_frame
from interlock.coordinator.supervisor import Supervisor
from interlock.coordinator.world import INBOX
from interlock.protocol.envelope import encode_line, wire_time
from interlock.protocol.inbox import Ack, Deliver, Letter
from interlock.protocol.limits import FRAME_BYTES_MAX
from interlock.protocol.messages import tag_of

LETTERS_AT_ONCE = 64  # written before others have their turn
_OURS = re.compile(r"\d{10,}\.[A-Z_]+\.json")
_HARMLESS = re.compile(r"[^A-Za-z0-9._-]+")
_STEM_MAX = 100


class Delivery:
    """One per bus."""

    def __init__(self, supervisor: Supervisor, folders: Folders) -> None:
        self._supervisor = supervisor
        self._folders = folders
        self._there: dict[str, dict[str, str]] = {}  # agent → name → message id, of what lies in its new/

    def uses(self, agent: str) -> bool:
        """Its messages go into its folder."""
        known = self._supervisor.world.registry.agents.get(agent)
        return known is not None and (known.files or self._supervisor.config.all_files)

    def users(self) -> list[str]:
        agents = self._supervisor.world.registry.agents.values()
        return [each.name for each in agents if each.files or self._supervisor.config.all_files]

    def bring(self, agent: str, *, look: bool) -> bool | None:
        """Make a folder say what the inbox says.

        Args:
            look: at what lies there; else what was put there is taken to be there still.

        Returns:
            False where there is more to write: call again, after others have had their turn. None where it cannot be.
        """
        done = self._folders.using(agent, lambda folder: self._bring(folder, look))
        if done is None:
            self._there.pop(agent, None)
        return done

    def _bring(self, folder: Folder, look: bool) -> bool:
        supervisor, agent = self._supervisor, folder.agent
        wanted = {file_name(letter): letter for letter in supervisor.world.inbox(agent).unread.values()}
        there = self._there.get(agent)
        if there is None:
            there = self._there[agent] = _look(folder["new"])
        elif look:  # at each of them, not through the folder: it may hold a hundred thousand answers
            for name in [each for each in there if look_at(each, folder["new"]) is None]:
                del there[name]
        for name in [each for each in there if each not in wanted]:
            self._take_out(folder, name)
            del there[name]
        read: list[str] = []
        shown: list[str] = []
        written = 0
        for name, letter in wanted.items():
            if name not in there:
                if _is_read(folder, name, letter):
                    read.append(letter.id)
                    continue
                if written == LETTERS_AT_ONCE:
                    break
                write_file(name, _content(agent, letter), folder["tmp"], folder["new"])
                written += 1
            there[name] = letter.id
            if not letter.delivered:
                shown.append(letter.id)
        if shown:
            supervisor.tell(INBOX + agent, Deliver(tuple(shown)))
        if read:
            supervisor.tell(INBOX + agent, Ack(tuple(read)))
            supervisor.heard(agent)
        return written < LETTERS_AT_ONCE

    def _take_out(self, folder: Folder, name: str) -> None:
        """It is not unread any more: read by a command, it goes where read ones are; withdrawn, it goes."""
        message_id = self._there[folder.agent][name] or _id_in(folder, "new", name)
        try:
            if message_id in self._supervisor.world.inbox(folder.agent).acked:
                os.rename(name, name, src_dir_fd=folder["new"], dst_dir_fd=folder["cur"])
            else:
                os.unlink(name, dir_fd=folder["new"])
        except OSError:
            pass  # the agent has moved or removed it

    def answer(self, folder: Folder, posted: str, frame: Frame | bytes, message_id: str) -> None:
        """Put a direct answer into its sender's `new/`. The same post has the same answer file, however often."""
        stem = _HARMLESS.sub("_", posted)[:_STEM_MAX]
        digest = hashlib.blake2b(message_id.encode(), digest_size=4).hexdigest()
        data = frame if isinstance(frame, bytes) else encode_line(frame)
        write_file(f"answer.{stem}.{digest}.json", data, folder["tmp"], folder["new"])


def file_name(letter: Letter) -> str:
    """`<seq>.<TYPE>.json`, so that names sort as the messages came; it follows from the record."""
    word = re.sub(r"[^A-Z]+", "_", tag_of(letter.body)).strip("_")
    return f"{letter.seq:010d}.{word}.json"


def _content(agent: str, letter: Letter) -> bytes:
    at = wire_time(letter.at_ms)
    return encode_line(answer_frame(letter.id, at, agent, letter.body, letter.reply_to, sender=letter.sender))


def _look(new: int) -> dict[str, str]:
    """Letters that lie there, their ids not looked up. An empty one is what a crash of the machine may leave."""
    names = [name for name in os.listdir(new) if _OURS.fullmatch(name)]
    return {name: "" for name in names if (found := look_at(name, new)) is not None and found.size}


def _is_read(folder: Folder, name: str, letter: Letter) -> bool:
    """It lies in `cur/`; one of the same name that another bus once wrote does not count."""
    if look_at(name, folder["cur"]) is None:
        return False
    return _id_in(folder, "cur", name) in {letter.id, ""}


def _id_in(folder: Folder, where: str, name: str) -> str:
    """The id of the message in a file; "" where it cannot be read."""
    found = look_at(name, folder[where])
    if found is None:
        return ""
    try:
        return str(msgspec.json.decode(read_file(found, folder[where], FRAME_BYTES_MAX), type=dict[str, object])["id"])
    except (Unsafe, msgspec.MsgspecError, KeyError, UnicodeDecodeError):
        return ""
