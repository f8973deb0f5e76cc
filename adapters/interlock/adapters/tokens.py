"""Tokens: what agents show where the bus wants to know for certain who they are. Made, kept and revoked here.

    create ──▶ the token, 0600, once, in a file that the agent is given      tokens/NAME, or wherever it was asked for
           └─▶ its digest, and what it allows, in the bus's own list         tokens/.known.json

The bus reads the list alone. A token itself stands nowhere but in its file.
"""

import contextlib
import os
import re
import secrets
from typing import Any

import msgspec

from interlock.adapters.kept_list import KeptList, now
from interlock.adapters.paths import Home, check_directory
from interlock.adapters.private_files import write_new
from interlock.adapters.small_files import read_regular
from interlock.coordinator.authority import Known, digest_of
from interlock.coordinator.repositories import Stamp
from interlock.coordinator.toml_values import ConfigError
from interlock.protocol.limits import TOKEN_STORE_BYTES_MAX, TOKENS_MAX
from interlock.protocol.names import why_not_agent

STORE = ".known.json"  # no agent is called so
NONE = "no list of tokens: move it away, then run bus token create for each agent again"
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
        self._list = KeptList(
            self.store, "tokens", _entry, msgspec.to_builtins,
            bytes_max=TOKEN_STORE_BYTES_MAX, entries_max=TOKENS_MAX, none=NONE,
        )  # fmt: skip

    # --- what the coordinator asks ------------------------------------------------------------
    def stamp(self) -> Stamp:
        return self._list.stamp()

    def known(self) -> dict[str, Known]:
        return {each.agent: Known(each.sha256, frozenset(each.allow)) for each in self.all()}

    # --- what a person does -------------------------------------------------------------------
    def all(self) -> tuple[Token, ...]:
        """Every token that counts, in the order in which they were made. Raises ConfigError."""
        return self._list.read()

    def create(self, agent: str, allow: tuple[str, ...], out: str = "") -> Token:
        """Make a token, and write it into a file that must not be there yet.

        Args: out: that file, absolute; "": NAME in the home's folder.

        Raises: TokenExists, ConfigError, BadHome, OSError.
        """
        self.folder.mkdir(exist_ok=True, mode=0o700)
        check_directory(self.folder)
        path = out or str(self.folder / agent)
        with self._list.alone() as write:
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
                write([*others, entry])
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
        with self._list.alone() as write:
            before = self.all()
            write([each for each in before if each.agent != agent])
        revoked = [each for each in before if each.agent == agent]
        for each in revoked:
            with contextlib.suppress(OSError):
                if digest_of(read_regular(each.file, 512).decode("ascii", "replace").strip()) == each.sha256:
                    os.unlink(each.file)
        return bool(revoked)


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
