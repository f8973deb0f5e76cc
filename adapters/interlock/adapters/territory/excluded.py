"""Paths that need no lease: `[territory] exclude` and linguist-generated, as the base commit has both.

A branch cannot excuse itself: what it changes in bus.toml or in a .gitattributes counts once it has landed.
"""

import os
import tempfile
from collections.abc import Collection, Iterable

from interlock.adapters.territory.git_call import Git
from interlock.adapters.territory.needs_none import ATTRIBUTE, FILE, FILE_BYTES_MAX, generated, named, question
from interlock.adapters.territory.problem import Problem
from interlock.coordinator.toml_values import ConfigError, Values, parse_toml
from interlock.protocol.glob import BadPattern, Pattern


def excluded(git: Git, base: str, paths: Collection[str]) -> set[str]:
    """Those of these paths that need no lease.

    Args:
        base: a commit, hex. paths: relative to the repository.

    Raises:
        Problem: 78 the bus.toml of the base commit is wrong; git cannot be asked.
    """
    return named(paths, _patterns(git, base)) | _generated(git, base, paths)


def _patterns(git: Git, base: str) -> list[Pattern]:
    """What `[territory] exclude` has there; nothing where there is no bus.toml."""
    blob = f"{base}:{FILE}"
    told = git.run("cat-file", "--batch-check", given=f"{blob}\n".encode()).split()
    if told[1:2] != [b"blob"]:
        return []
    where = f"{FILE} of the base commit {base[:12]}"
    if int(told[2]) > FILE_BYTES_MAX:
        raise Problem(78, f"{where}: more than {FILE_BYTES_MAX} bytes: that is no configuration")
    try:
        text = git.run("cat-file", "blob", blob).decode()
        values, table = Values(text, where), parse_toml(text, where)
        return [
            Pattern.parse(each) for each in values.strings(values.table(table, "territory", ""), "exclude", "territory")
        ]
    except UnicodeDecodeError:
        raise Problem(78, f"{where}: not UTF-8: write it as text") from None
    except (ConfigError, BadPattern) as error:
        raise Problem(78, f"{where}: {error}" if isinstance(error, BadPattern) else str(error)) from None


def _generated(git: Git, base: str, paths: Iterable[str]) -> set[str]:
    """What the .gitattributes files there say. They are read from an index of that commit, which older gits can too."""
    given = question(paths)
    if not given:
        return set()
    with tempfile.TemporaryDirectory(prefix="interlock-") as folder:
        own = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
        git.run("read-tree", base, setting=own)
        return generated(git.run("check-attr", "-z", "--cached", "--stdin", ATTRIBUTE, given=given, setting=own))
