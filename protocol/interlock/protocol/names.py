"""Names: agents, resources, repositories. What is not a name here never becomes a path or a lock."""

import difflib
import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import islice

from interlock.protocol.limits import (
    AGENT_NAME_CHARACTERS_MAX,
    NAMES_COMPARED_MAX,
    NEAREST_NAMES_MAX,
    REPOSITORY_ID_CHARACTERS_MAX,
    RESOURCE_KEY_CHARACTERS_MAX,
    RESOURCE_NAME_CHARACTERS_MAX,
)
from interlock.protocol.visible import quoted

COORDINATOR = "coordinator"
SUPERVISOR = "supervisor"
RESERVED = frozenset({COORDINATOR, SUPERVISOR, "timer", "journal", "all"})

_AGENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_TASK = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LAUNCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REPOSITORY = re.compile(r"[A-Za-z0-9_-]{1,128}")


def why_not_agent(name: str) -> str | None:
    """Say what is wrong with an agent's name, or None.

    Source: contract §1. `--` is kept free: it separates the sender in an inbox file's name.
    """
    if not _AGENT.fullmatch(name):
        return (
            f"{quoted(name)} is no agent name: a letter or digit first, then letters, digits, '.', '_' or '-', "
            f"at most {AGENT_NAME_CHARACTERS_MAX} in all"
        )
    if "--" in name:
        return f"{quoted(name)} is no agent name: it must not hold '--'"
    if name.lower() in RESERVED:
        return f"{quoted(name)} is reserved for the bus: choose another name"
    return None


def why_not_launch(launch: str) -> str | None:
    """Say what is wrong with a launch's id, or None. It becomes a file's name: nothing in it may lead anywhere else."""
    if _LAUNCH.fullmatch(launch):
        return None
    return "a launch id has a letter or digit first, then letters, digits, '.', '_' or '-', at most 128 in all"


def why_not_task(task: str) -> str | None:
    """Why that is no id of a task, in one sentence; None where it is one."""
    if len(task) <= AGENT_NAME_CHARACTERS_MAX and _TASK.fullmatch(task) and ".." not in task:
        return None
    most = AGENT_NAME_CHARACTERS_MAX
    return f"{quoted(task)} is no id of a task: 1 to {most} letters, digits, '.', '_' or '-', a letter or digit first"


def why_not_commit(commit: str) -> str | None:
    """Why that names no commit for certain, in one sentence; None where it does."""
    return None if _COMMIT.fullmatch(commit) else "a commit is named by its 40 or 64 hex digits: git rev-parse HEAD"


def is_key(resource: str) -> bool:
    """A full key holds a slash; a short name never does."""
    return "/" in resource


def why_not_resource(resource: str) -> str | None:
    """Say what is wrong with a short resource name or a full key, or None. Source: contract §1."""
    if len(resource) > RESOURCE_KEY_CHARACTERS_MAX:
        return f"a resource key has at most {RESOURCE_KEY_CHARACTERS_MAX} characters, this one {len(resource)}"
    return _why_not_resource(resource)


@lru_cache(maxsize=4096)
def _why_not_resource(resource: str) -> str | None:
    """The same few names come with every message. What is too long for a name is never kept."""
    if not is_key(resource):
        return None if _is_name(resource) else _bad_name(resource)
    match resource.split("/"):
        case ["machine", name]:
            return None if _is_name(name) else _bad_name(name)
        case ["repository", repository, name]:
            if not _REPOSITORY.fullmatch(repository):
                most = REPOSITORY_ID_CHARACTERS_MAX
                return f"{quoted(repository)} is no repository id: 1 to {most} letters, digits, '_' or '-'"
            return None if _is_name(name) else _bad_name(name)
        case _:
            return f"{quoted(resource)} is no resource key: machine/<name> or repository/<id>/<name>"


def is_repository_id(text: str) -> bool:
    """1 to 128 letters, digits, '_' or '-'."""
    return _REPOSITORY.fullmatch(text) is not None


def short_name(key: str) -> str:
    """The last part of a key: what people call the resource."""
    return key.rpartition("/")[2]


def named(keys: Sequence[str]) -> str:
    """Several resources in a sentence: a, b and c."""
    names = [short_name(key) for key in keys]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def plain_name(key: str) -> str:
    """What can be said of a resource anywhere: `machine/x` is known as that also where nobody has declared it."""
    return key if key.startswith("machine/") else short_name(key)


def state_file_name(key: str, *, folds_case: bool = False) -> str:
    """The file that a resource's state is written to: another name for every key.

    Args:
        key: a full key.
        folds_case: the file system takes `GPU.md` and `gpu.md` for one; then capitals are marked once more.
    """
    name = "@".join(reversed(key.split("/")[1:]))  # no part of a key can hold an "@", or a "~"
    if folds_case and name != name.lower():
        name += f"~{sum(1 << at for at, character in enumerate(name) if character.isupper()):x}"
    return f"{name}.md"


def key_of_state_file(name: str) -> str | None:
    """The key that `state_file_name` made this name of; None where it is no such name."""
    stem, dot, _ = name.rpartition(".md")
    short, at, repository = stem.partition("~")[0].partition("@")
    key = f"repository/{repository}/{short}" if at else f"machine/{short}"
    return key if dot and why_not_resource(key) is None else None


def nearest(name: str, known: Collection[str]) -> list[str]:
    """The known names most like this one, best first, a few at most. Among very many only some are compared."""
    fold = name.casefold()
    alike = (each for each in known if each[:1].casefold() == fold[:1] or each[-2:].casefold() == fold[-2:])
    by_fold = {candidate.casefold(): candidate for candidate in islice(alike, NAMES_COMPARED_MAX)}
    if len(by_fold) < NAMES_COMPARED_MAX:
        by_fold |= {candidate.casefold(): candidate for candidate in islice(known, NAMES_COMPARED_MAX)}
    close = difflib.get_close_matches(fold, by_fold, n=NEAREST_NAMES_MAX, cutoff=0.55)
    return [by_fold[each] for each in close]


def _is_name(name: str) -> bool:
    return bool(_NAME.fullmatch(name)) and ".." not in name


def _bad_name(name: str) -> str:
    return (
        f"{quoted(name)} is no resource name: a letter or digit first, then letters, digits, '_', '.' or '-' "
        f"(no '..'), at most {RESOURCE_NAME_CHARACTERS_MAX} in all"
    )
