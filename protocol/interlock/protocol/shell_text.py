"""What a shell would run for a text: the words of every simple command in it, without running any of it.

    "cd x && A=1 make -j; echo `go env`"  ──▶  [go env] [cd x] [A=1 make -j] [echo ?]

It knows quotes, comments, pipelines, subshells, substitutions, here-documents and redirections. It knows no variable:
what one stands for is unknown, and said to be so. What it cannot read for certain it does not guess.
"""

import re
from typing import NamedTuple

from interlock.protocol.limits import COMMAND_DEPTH_MAX

UNKNOWN = "\0"  # in a word: nobody can tell what stands there, perhaps several words
VEILED = "\1"  # the same within quotes: part of this word, whatever it is

_PLAIN = re.compile(r"[^ \t\n'\"\\$`|&;<>()*?\[{\0\1]+")
_QUOTED = re.compile(r'[^"\\$`}\']+')
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_BRACKET = re.compile(r"[()]")
_REDIRECTION = re.compile(r"<<<|<<-?|<>|<&|>>|>&|>\||<|>")
_DESCRIPTOR = re.compile(r"[0-9]+|\{\w+\}")
_AS_THEY_ARE = {"[", "[[", "{", "{}"}  # words, and no patterns


class Unreadable(Exception):
    """No shell text that can be read for certain."""


class Simple(NamedTuple):
    """One simple command.

    Args:
        words: without their quotes, UNKNOWN or VEILED in them; redirections are left out.
        written: as it stands in the text, redirections and all.
        inside: commands whose output is part of its words, or that it is redirected from.
        before: the command whose output it reads through a pipe.
    """

    words: list[str]
    written: str
    inside: "tuple[Simple, ...]"
    before: "Simple | None"


def simple_commands(text: str) -> list[Simple]:
    """Every simple command, also those that a substitution runs, which stand before what they are in.

    Args:
        text: as `sh -c` takes it.

    Raises:
        Unreadable: it is no such text, or nested deeper than COMMAND_DEPTH_MAX.
    """
    found: list[Simple] = []
    _Text(text, 0, found).commands("")
    return found


class _Text:
    """One text under way. Args: depth: of nesting around it. found: where commands go."""

    def __init__(self, text: str, depth: int, found: list[Simple]) -> None:
        if depth > COMMAND_DEPTH_MAX:
            raise Unreadable
        self._text = text
        self._at = 0
        self._depth = depth
        self._found = found
        self._awaited: list[tuple[str, bool, bool]] = []  # here-documents: delimiter, leading tabs go, expands

    def commands(self, closer: str) -> None:
        """Read commands up to the end, or to the `)` of a substitution. Args: closer: ")" or ""."""
        text, words, opened = self._text, list[str](), 0
        mark, begun, before = len(self._found), self._at, None
        while self._at < len(text):
            if not words and mark == len(self._found):
                begun = self._at
            char = text[self._at]
            if char in " \t":
                self._at += 1
            elif text.startswith("\\\n", self._at):
                self._at += 2
            elif char == "\n":
                self._end(words, closer, mark, begun, before)
                self._at += 1
                self._here_documents()
                words, mark, before = [], len(self._found), None
            elif char == "#":
                end = text.find("\n", self._at)
                self._at = end if end >= 0 else len(text)
            elif char in ";|" or (char == "&" and not text.startswith("&>", self._at)):
                self._end(words, closer, mark, begun, before)
                is_pipe = char == "|" and not text.startswith("||", self._at)
                self._at += 1 if is_pipe or char != "|" else 2
                words, mark, before = [], len(self._found), self._found[-1] if is_pipe and self._found else None
            elif char in "()":
                self._end(words, closer, mark, begun, before)
                self._at += 1
                words, mark = [], len(self._found)
                if char == ")" and closer and not opened:
                    return
                opened = opened + 1 if char == "(" else max(0, opened - 1)  # a pattern of `case` only closes
            elif char in "<>&":
                self._redirection()
            else:
                start, word = self._at, self._word()
                goes_on = text.startswith(("<", ">"), self._at)
                if not (goes_on and _DESCRIPTOR.fullmatch(text[start : self._at])):
                    words.append(word)
        if closer or opened or self._awaited:
            raise Unreadable
        self._end(words, closer, mark, begun, before)

    def _end(self, words: list[str], closer: str, mark: int, begun: int, before: Simple | None) -> None:
        """Args: mark, begun: how much was found, and how much had been read, when it began."""
        if closer and "case" in words:  # the `)` of its patterns would end the substitution
            raise Unreadable
        if words:
            written, inside = self._text[begun : self._at], tuple(self._found[mark:])
            self._found.append(Simple(words, written, inside, before))

    # --- words --------------------------------------------------------------------------------
    def _word(self) -> str:
        text, start, parts = self._text, self._at, list[str]()
        while self._at < len(text) and (char := text[self._at]) not in " \t\n;|&()<>":
            plain = _PLAIN.match(text, self._at)
            if plain is not None:
                self._at = plain.end()
                parts.append(plain[0])
                continue
            self._at += 1
            if char == "\\":
                escaped = text[self._at : self._at + 1]
                self._at += 1
                parts.append("" if escaped == "\n" else escaped)
            elif char == "'":
                parts.append(self._up_to("'"))
            elif char == '"':
                parts.append(self._quoted('"'))
            elif char == "$":
                parts.append(self._expansion(UNKNOWN))
            elif char == "`":
                parts.append(self._backticks(UNKNOWN))
            else:  # a pattern, or a byte that no command can hold
                parts.append(UNKNOWN)
        written, word = text[start : self._at], "".join(parts)
        if written in _AS_THEY_ARE:
            return written
        return UNKNOWN + word if written.startswith("=") else word  # zsh looks such a name up

    def _quoted(self, closer: str) -> str:
        """What stands in double quotes, `${…}` or a here-document. Args: closer: its end; "": that of the text."""
        text, parts = self._text, list[str]()
        while self._at < len(text):
            char = text[self._at]
            if char == closer:
                self._at += 1
                return "".join(parts)
            plain = _QUOTED.match(text, self._at)
            if plain is not None:
                self._at = plain.end()
                parts.append(plain[0])
                continue
            self._at += 1
            if char == "\\":
                escaped = text[self._at : self._at + 1]
                self._at += 1
                parts.append({"\n": ""}.get(escaped, escaped if escaped in set('$`"\\') else f"\\{escaped}"))
            elif char == "$":
                parts.append(self._expansion(VEILED))
            elif char == "`":
                parts.append(self._backticks(VEILED))
            elif closer == "}" and char == '"':
                self._quoted('"')
            elif closer == "}" and char == "'":  # a quote or none, as what is around it has it
                raise Unreadable
            else:
                parts.append(char)
        if closer:
            raise Unreadable
        return "".join(parts)

    def _expansion(self, mark: str) -> str:
        """What follows a `$`, commands in it read too. Args: mark: what stands for what nobody can tell."""
        text = self._text
        char = text[self._at : self._at + 1]
        if char == "(":
            if not self._arithmetic():
                self._at += 1
                self._deeper(1)
                self.commands(")")
                self._deeper(-1)
            return mark
        if char == "{":
            self._at += 1
            self._deeper(1)
            self._quoted("}")
            self._deeper(-1)
            return mark
        if mark == UNKNOWN and char == '"':  # $"…", in another language perhaps
            self._at += 1
            self._quoted('"')
            return mark
        if mark == UNKNOWN and char == "'":  # $'\x6d'
            self._at += 1
            self._skip_to("'")
            return mark
        name = _NAME.match(text, self._at)
        if name is None:
            return "$"
        self._at = name.end()
        return mark

    def _arithmetic(self) -> bool:
        """Go behind a `$((…))`; False where it is none."""
        text, open_ = self._text, 0
        if not text.startswith("((", self._at):
            return False
        for found in _BRACKET.finditer(text, self._at):
            open_ += 1 if found[0] == "(" else -1
            if open_ == 1 and found[0] == ")" and not text.startswith(")", found.end()):
                return False  # $((a) b), and $((a)&&(b)): commands
            if open_ == 0:
                inner, self._at = text[self._at : found.end()], found.end()
                if "`" in inner or "$(" in inner:
                    raise Unreadable
                return True
        raise Unreadable

    def _backticks(self, mark: str) -> str:
        inner = re.sub(r"\\([$`\\])", r"\1", self._skip_to("`"))
        _Text(inner, self._depth + 1, self._found).commands("")
        return mark

    def _skip_to(self, quote: str) -> str:
        """What stands before the next such quote that no backslash stands before; go behind it."""
        start = self._at
        while self._at < len(self._text) and self._text[self._at] != quote:
            self._at += 2 if self._text[self._at] == "\\" else 1
        if self._at >= len(self._text):
            raise Unreadable
        self._at += 1
        return self._text[start : self._at - 1]

    def _up_to(self, quote: str) -> str:
        end = self._text.find(quote, self._at)
        if end < 0:
            raise Unreadable
        inner, self._at = self._text[self._at : end], end + 1
        return inner

    def _deeper(self, by: int) -> None:
        self._depth += by
        if self._depth > COMMAND_DEPTH_MAX:
            raise Unreadable

    # --- redirections -------------------------------------------------------------------------
    def _redirection(self) -> None:
        """Go behind one and the word that it goes to; a here-document is read after the line."""
        if self._text[self._at] == "&":
            self._at += 1
        sign = _REDIRECTION.match(self._text, self._at)
        if sign is None:
            raise Unreadable
        self._at = sign.end()
        if self._text.startswith("(", self._at):  # <(…): commands of their own
            return
        while self._text.startswith((" ", "\t", "\\\n"), self._at):
            self._at += 2 if self._text[self._at] == "\\" else 1
        start = self._at
        word = self._word()
        written = self._text[start : self._at]
        if not written:
            raise Unreadable
        if sign[0] in {"<<", "<<-"}:
            if UNKNOWN in word or VEILED in word:
                raise Unreadable
            self._awaited.append((word, sign[0] == "<<-", word == written))

    def _here_documents(self) -> None:
        awaited, self._awaited = self._awaited, []
        for delimiter, tabs_go, expands in awaited:
            lines = list[str]()
            while True:
                if self._at >= len(self._text):
                    raise Unreadable
                end = self._text.find("\n", self._at)
                end = end if end >= 0 else len(self._text)
                line, self._at = self._text[self._at : end], min(end + 1, len(self._text))
                if (line.lstrip("\t") if tabs_go else line) == delimiter:
                    break
                lines.append(line)
            if expands:
                _Text("\n".join(lines), self._depth + 1, self._found)._quoted("")
