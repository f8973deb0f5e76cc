"""Scrubbing: what must not stand in a record that leaves this machine: secrets, home paths, environment.

It is for texts that people and programs wrote. A hash or a commit stays: it is evidence, and gives nothing away.
"""

import os
import re
from typing import Any

GONE = "[removed]"
_SECRET_NAME = (
    r"(?<![A-Za-z0-9_.])(?:[A-Za-z0-9_.-]{0,64}?"
    r"(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credential|authorization)"
    r"[A-Za-z0-9_-]{0,64}|pwd)"
)
_VALUE = r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s,;&\"']+)"
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL),
        GONE,
    ),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.?[A-Za-z0-9_-]*"), GONE),  # a JSON web token
    (
        re.compile(
            r"\b(?:gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|npm_|pypi-|hf_|dop_v1_|ya29\.|SG\.|"
            r"(?:sk|rk|pk)[-_](?:live|test|ant|proj)?[-_]?)[A-Za-z0-9_.-]{12,}"
        ),
        GONE,
    ),
    (re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"), GONE),
    (re.compile(r"\bAIza[0-9A-Za-z_-]{30,}"), GONE),
    (re.compile(r"\b((?:Bearer|Basic|Digest)\s+)[A-Za-z0-9+/=_.~-]{6,}", re.IGNORECASE), rf"\1{GONE}"),
    (re.compile(r"([A-Za-z][A-Za-z0-9+.-]{1,20}://)[^\s/@]*@"), rf"\1{GONE}@"),  # a password in an address
    (re.compile(rf"(--?{_SECRET_NAME})(?:\s+|=){_VALUE}", re.IGNORECASE), rf"\1 {GONE}"),
    (re.compile(rf"({_SECRET_NAME}[\"']?\s*[:=]\s*){_VALUE}", re.IGNORECASE), rf"\1{GONE}"),
    (re.compile(rf"\b([A-Z][A-Z0-9_]{{1,63}}=){_VALUE}"), rf"\1{GONE}"),  # a variable of an environment
    (re.compile(r"(?<![\w.])(?:/home|/Users|/var/home|/export/home)/[^/\s:'\"`]+"), "~"),
    (re.compile(r"(?<![\w.])/root(?=/|\b)"), "~"),
    (re.compile(r"\b[A-Za-z]:[\\/]Users[\\/][^\\/\s:'\"`]+", re.IGNORECASE), "~"),
)


def scrub(text: str) -> str:
    """The text without what must not leave: each secret as `[removed]`, each home as `~`."""
    home = os.path.expanduser("~")
    if len(home) > 1:
        text = re.sub(re.escape(home) + r"(?=/|\b)", "~", text)
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return text


def scrubbed(value: Any) -> Any:
    """The same of every text in a document."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, dict):
        return {key: scrubbed(each) for key, each in value.items()}
    return [scrubbed(each) for each in value] if isinstance(value, list) else value
