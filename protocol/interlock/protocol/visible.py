"""Visible text: what somebody else wrote, shown so that nothing in it hides, moves the cursor or forges a line."""


def visible(text: str) -> str:
    """The text on one line, every character that cannot be seen written as its escape (`\\n`, `\\x1b`, `\\u202e`).

    Args:
        text: anything, lone surrogates of a file name that is not UTF-8 included.
    """
    return "".join(c if c.isprintable() and c != "\\" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return "\\\\" if character == "\\" else character.encode("unicode_escape").decode()
