"""Tokens: what agents show where the bus wants to know for certain who they are. Made, kept and revoked here.

    create ──▶ the token, 0600, once, in a file that the agent is given      tokens/NAME, or wherever it was asked for
           └─▶ its digest, and what it allows, in the bus's own list         tokens/.known.json

The bus reads the list alone. A token itself stands nowhere but in its file.
"""

import contextlib
import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from interlock.adapters.paths import Home, check_directory
from interlock.adapters.private_files import open_folder, write_new, write_whole
from interlock.adapters.small_files import read_regular
from interlock.adapters.trust import now, read_bounded, stamp_of
from interlock.coordinator.authority import Known, digest_of
from interlock.coordinator.repositories import Stamp
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.limits import TOKEN_STORE_BYTES_MAX, TOKENS_MAX
from interlock.protocol.names import why_not_agent

STORE = ".known.json"  # no agent is called so
VERSION = 1
TOKEN = re.compile(rb"bus_[A-Za-z0-9_-]{43}\n?")
RANDOM_BYTES = 32


class Token(msgspec.Struct, frozen=True):
    """What is known of one token. Args: file: where it was written to. at: when, as wire time."""

    agent: str
    sha256: str
    allow: tuple[str, ...]
    file: str
    at: str


class TokenExists(Exception):
    """There is one already; the text is one sentence with what to do."""


class LocalTokens:
    """Implements coordinator.authority.Tokens. Args: home: whose tokens they are."""

    def __init__(self, home: Home) -> None:
        self.folder = home.tokens
        self.store = home.tokens / STORE

    # --- what the coordinator asks ------------------------------------------------------------
    def stamp(self) -> Stamp:
        return stamp_of(str(self.store))

    def known(self) -> dict[str, Known]:
        return {each.agent: Known(each.sha256, frozenset(each.allow)) for each in self.all()}

    # --- what a person does -------------------------------------------------------------------
    def all(self) -> tuple[Token, ...]:
        """Every token that counts, in the order in which they were made. Raises ConfigError."""
        try:
            data = read_bounded(str(self.store), TOKEN_STORE_BYTES_MAX)
        except FileNotFoundError:
            return ()
        try:
            found = json.loads(data)
            if found["version"] != VERSION:
                raise ConfigError(f"{self.store}: written by a newer bus: use that one")
            return tuple(_entry(each) for each in found["tokens"])[:TOKENS_MAX]
        except (ValueError, TypeError, KeyError, RecursionError):
            why = "no list of tokens: move it away, then run bus token create for each agent again"
            raise ConfigError(f"{self.store}: {why}") from None

    def create(self, agent: str, allow: tuple[str, ...], out: str = "") -> Token:
        """Make a token, and write it into a file that must not be there yet.

        Args: out: that file, absolute; "": NAME in the home's folder.

        Raises: TokenExists, ConfigError, BadHome, OSError.
        """
        self.folder.mkdir(exist_ok=True, mode=0o700)
        check_directory(self.folder)
        path = out or str(self.folder / agent)
        with self._alone() as folder:
            others = self.all()
            if any(each.agent == agent for each in others):
                raise TokenExists(f"{agent} has a token already: bus token revoke {agent}, then again")
            if len(others) >= TOKENS_MAX:
                raise ConfigError(f"{len(others)} tokens are there, no more can be: bus token revoke NAME")
            token = f"bus_{secrets.token_urlsafe(RANDOM_BYTES)}"
            entry = Token(agent, digest_of(token), allow, path, now())
            try:
                _write_token(path, token)
            except FileExistsError:
                raise TokenExists(f"{path} is there already, and nothing is overwritten: move it away") from None
            try:
                self._write(folder, [*others, entry])
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(path)
                raise
        return entry

    def revoke(self, agent: str) -> bool:
        """It counts no more, from the next message on. Its file goes too, where it still holds that token.

        Returns: whether there was one. Raises: ConfigError, OSError.
        """
        if not self.folder.is_dir():
            return False
        with self._alone() as folder:
            before = self.all()
            self._write(folder, [each for each in before if each.agent != agent])
        revoked = [each for each in before if each.agent == agent]
        for each in revoked:
            with contextlib.suppress(OSError):
                if digest_of(read_regular(each.file, 512).decode("ascii", "replace").strip()) == each.sha256:
                    os.unlink(each.file)
        return bool(revoked)

    def _write(self, folder: int, entries: list[Token]) -> None:
        text = json.dumps({"version": VERSION, "tokens": msgspec.to_builtins(entries)}, indent=1) + "\n"
        try:
            write_whole(folder, STORE, text.encode(), durable=True)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.store)) from None

    @contextmanager
    def _alone(self) -> Iterator[int]:
        """The folder. Two people at two terminals do not lose each other's tokens."""
        folder = open_folder(str(self.folder))
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield folder
        finally:
            os.close(folder)


def is_token_file(path: str) -> bool:
    """A file that holds a token of ours, and nothing else."""
    try:
        return TOKEN.fullmatch(read_regular(path, 512)) is not None
    except OSError:
        return False


def _write_token(path: str, token: str) -> None:
    """Raises OSError, with the path."""
    try:
        folder = os.open(os.path.dirname(path) or "/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            write_new(folder, os.path.basename(path), f"{token}\n".encode(), durable=True)
            os.fsync(folder)
        finally:
            os.close(folder)
    except FileExistsError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def _entry(row: Any) -> Token:
    token = msgspec.convert(row, Token)
    if why_not_agent(token.agent) is not None or not re.fullmatch(r"[0-9a-f]{64}", token.sha256):
        raise ValueError("no entry")
    return token
