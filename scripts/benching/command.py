"""The command: which rows, how long, where the results go."""

from collections.abc import Sequence

from scripts.benching import pairs
from scripts.benching.load_process import serve_load


def main(words: Sequence[str]) -> int:
    if words[:1] == ["load"]:
        return serve_load(words[1:])
    if words[:1] == ["pairs"]:
        return pairs.command(words[1:])
    return 64
