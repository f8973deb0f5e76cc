"""The token that a program was given: BUS_TOKEN, or what the file holds that BUS_TOKEN_FILE names."""

import os

from interlock.adapters.small_files import read_regular

TOKEN_BYTES_MAX = 512


class NoToken(Exception):
    """A token is named and cannot be read; the text is one sentence, with the file and never with what is in it."""


def given_token() -> str:
    """The token, "" where none was given. Raises NoToken."""
    token, path = os.environ.get("BUS_TOKEN", ""), os.environ.get("BUS_TOKEN_FILE", "")
    if token or not path:
        return _checked(token.encode("utf-8", "surrogateescape"), "BUS_TOKEN")
    try:
        data = read_regular(path, TOKEN_BYTES_MAX, follow=True)  # a container's secrets are links
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", "") or "no path"
        raise NoToken(f"the token file {path} cannot be read ({why}): set BUS_TOKEN_FILE to yours") from None
    return _checked(data, f"the token file {path}")


def _checked(data: bytes, where: str) -> str:
    try:
        token = data[: TOKEN_BYTES_MAX + 1].decode("ascii").strip()
    except UnicodeDecodeError:
        token = "?"
    if len(data) > TOKEN_BYTES_MAX or not all(letter.isalnum() or letter in "-_." for letter in token):
        raise NoToken(f"{where} holds no token: give what bus token create wrote")
    return token
