"""Scrubbing: what must not stand in a record that leaves this machine: secrets, home paths, environment.

It is for texts that people and programs wrote, and takes rather too much than too little. A hash or a commit stays: it
is evidence, and gives nothing away.
"""

import os
import re
import unicodedata
from typing import Any

GONE = "[removed]"
_NAMES = (
    "password|passwd|passphrase|passcode|secret|token|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key|"
    "signing[_-]?key|credential|authorization|session[_-]?id|cookie"
)
_SECRET_NAME = (
    rf"(?<![A-Za-z0-9_.])(?:[A-Za-z0-9_.-]{{0,64}}?(?:{_NAMES})[A-Za-z0-9_-]{{0,64}}"
    r"|(?:[A-Za-z0-9_.-]{0,64}[_.-])?pass|pwd|sig)"
)
_QUOTED = r"\"(?:\\.|[^\"\\\n]){0,4096}\"?|'(?:\\.|[^'\\\n]){0,4096}'?"
_VALUE = rf"(?:[\[({{]\s*)?(?:[|>][+-]?\s+)?(?:{_QUOTED}|[^\s,;&\"'\])}}]+)"
_FORMS = (  # as their services give them out
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.?[A-Za-z0-9_-]*",  # a JSON web token
    r"\b(?:gh[pousr]_|github_pat_|glpat-|glsa_|xox[abeoprs]-|xapp-|npm_|pypi-|hf_|dop_v1_|ya29\.|SG\.|"
    r"(?:sk|rk|pk)[-_](?:live|test|ant|proj)?[-_]?)[A-Za-z0-9_.-]{12,}",
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\bAIza[0-9A-Za-z_-]{30,}",
    r"\bAGE-SECRET-KEY-1[0-9A-Z]{20,}",
    r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]+",
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*KEY(?: BLOCK)?-----|\Z)",
    r"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{64,}={0,2}\s*){2,}",  # the body of a key, without its head
)
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    *((re.compile(each, re.DOTALL), GONE) for each in _FORMS),
    (re.compile(r"\b(Authorization\s*[:=]\s*)[^\n'\"]+", re.IGNORECASE), rf"\1{GONE}"),
    (re.compile(r"\b((?:Set-)?Cookie\s*:\s*)[^\n'\"]+", re.IGNORECASE), rf"\1{GONE}"),
    (re.compile(r"\b((?:Bearer|Basic|Digest)\s+)[A-Za-z0-9+/=_.~-]{6,}", re.IGNORECASE), rf"\1{GONE}"),
    (re.compile(r"([A-Za-z][A-Za-z0-9+.-]{1,20}://)[^\s/@:]{0,256}:[^\s'\"<>]{0,1024}@"), rf"\1{GONE}@"),
    (re.compile(r"([A-Za-z][A-Za-z0-9+.-]{1,20}://)[^\s/@:]{1,256}@"), rf"\1{GONE}@"),
    (re.compile(r"((?<!\S)(?:-u|--user)[ =])[^\s:]{1,256}:\S+"), rf"\1{GONE}"),  # curl
    (re.compile(rf"(--?{_SECRET_NAME})(?:\s+|=){_VALUE}", re.IGNORECASE), rf"\1 {GONE}"),
    (re.compile(rf"({_SECRET_NAME}[\"']?\s*[:=]\s*){_VALUE}", re.IGNORECASE), rf"\1{GONE}"),
    (re.compile(rf"\b([A-Z][A-Z0-9_]{{1,63}}=){_VALUE}"), rf"\1{GONE}"),  # a variable of an environment
    (re.compile(r"(?:/[^\s/'\"`:]{1,64}){0,3}/(?:home|Users)/[^/\s:'\"`]+"), "~"),
    (re.compile(r"(?<![a-z0-9_.~/])(?:/var|/private/var)?/root(?=/|\b)"), "~"),
    (re.compile(r"\b[A-Za-z]:[\\/]Users[\\/][^\\/\s:'\"`]+", re.IGNORECASE), "~"),
)


def scrub(text: str) -> str:
    """The text without what must not leave: secrets as `[removed]`, homes as `~`, nothing that cannot be seen."""
    text = "".join(each for each in text if unicodedata.category(each) != "Cf")
    home = os.path.expanduser("~")
    if len(home) > 1:
        text = re.sub(rf"(?<![a-z0-9_.]){re.escape(home)}(?=/|\b)", "~", text)
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
