"""A person: what is asked of one at a terminal, and of no program."""

import getpass
import os

from interlock.adapters.cli.options import Failure


def must_be_a_person(why: str, *, shown_on: int | None = None, exit_code: int = 77) -> None:
    """Go on only for somebody who types, and reads what is shown.

    Args:
        why: the sentence for anybody else. shown_on: the file descriptor that a question is printed on.
        exit_code: 77: nobody else ever may; 64: a program can say it by an option.

    Raises:
        Failure: no terminal.
    """
    if not os.isatty(0) or (shown_on is not None and not os.isatty(shown_on)):
        raise Failure(exit_code, why, "CAPABILITY_DENIED" if exit_code == 77 else "")


def user() -> str:
    """Whoever sits there: that a terminal stands in an agent's worktree makes nobody that agent."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
