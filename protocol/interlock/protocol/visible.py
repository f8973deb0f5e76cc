"""Visible text: what somebody else wrote, shown so that nothing in it hides, moves the cursor or forges a line."""

SENTENCE_CHARACTERS = 500  # what a person reads of a sentence that quotes a stranger's file
QUOTED_CHARACTERS = 80  # enough to know one's own word again: a whole name that is a little too long
PATH_CHARACTERS = 256
WHY_CHARACTERS = 1_000  # of a refusal: it may quote several
WHY_END_CHARACTERS = 300  # what to do stands at its end


def visible(text: str) -> str:
    """The text on one line, every character that cannot be seen written as its escape (`\\n`, `\\x1b`, `\\u202e`).

    Args:
        text: anything, lone surrogates of a file name that is not UTF-8 included.
    """
    return "".join(c if c.isprintable() and c != "\\" else _escaped(c) for c in text)


def unhidden(text: str) -> str:
    """The same, with backslashes as they are: to be read, not to be undone."""
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def one_sentence(text: str) -> str:
    """A sentence that quotes what somebody else wrote: on one line, nothing hidden, not endless. Backslashes stay."""
    return beginning(unhidden(text), SENTENCE_CHARACTERS)


def beginning(text: str, most: int) -> str:
    """The text, or so many characters that show that it goes on."""
    return text if len(text) <= most else text[: most - 1] + "…"


def quoted(text: str, most: int = QUOTED_CHARACTERS) -> str:
    """For a sentence that quotes what somebody said: between quotes, nothing hidden, the beginning of what is long."""
    return repr(beginning(text, most))


def why_of(sentence: str) -> str:
    """A refusal's sentence as it may be said: on one line, nothing hidden, its beginning and end where it is long."""
    if len(sentence) <= WHY_CHARACTERS and sentence.isprintable():
        return sentence
    return _both_ends(unhidden(_both_ends(sentence)))


def _both_ends(sentence: str) -> str:
    if len(sentence) <= WHY_CHARACTERS:
        return sentence
    return f"{sentence[: WHY_CHARACTERS - WHY_END_CHARACTERS - 3]} … {sentence[-WHY_END_CHARACTERS:]}"


def _escaped(character: str) -> str:
    return "\\\\" if character == "\\" else character.encode("unicode_escape").decode()
