"""Git, called so that it asks nobody, waits for nobody, takes no lock that it could do without, and ends in time.

Everything that a caller's environment says to git (GIT_DIR, `git -c`, …) is left out: only a hook keeps what git itself
gave it. What the user's own configuration says counts, as in any call of git, but for hooks and file monitors: no
program of these runs. Filters do (`git lfs`): without them no content could be compared.
"""

import os
from collections.abc import Iterable, Mapping

from interlock.adapters.territory.git_process import ALONE, NotCalled, TooMuch, TooSlow, call
from interlock.protocol.visible import one_sentence

OUTPUT_BYTES_MAX = 256 * 1024 * 1024  # 100,000 paths of 1 KB fit twice; what is larger would fill our memory
CALM = ("-c", "core.fsmonitor=", "-c", "core.pager=cat", "-c", "core.quotePath=false")
NO_HOOKS = ("-c", "core.hooksPath=/dev/null")
# Where git looks for its configuration, as the user or an administrator has set it up; no word of a caller to git.
SETTINGS = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"})
# What git gives a hook: which repository, and which index is being committed (`git commit -a` has one of its own).
OF_A_HOOK = frozenset(
    {"GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE",
     "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_CONFIG_PARAMETERS"}
)  # fmt: skip


class GitFailed(Exception):
    """Git could not say it; the text is one sentence.

    Args:
        why: the sentence. exit_code: git's own; -1 where it was not found, took too long or said too much.
    """

    def __init__(self, why: str, exit_code: int = -1) -> None:
        super().__init__(why)
        self.exit_code = exit_code


def run(
    args: Iterable[str | bytes],
    cwd: str,
    *,
    input: bytes = b"",  # noqa: A002 - as subprocess has it
    timeout_s: float,
    keep: frozenset[str] = frozenset(),
    accept: tuple[int, ...] = (0,),
    hooks_path: bool = False,
    settings: tuple[str, ...] = (),
) -> bytes:
    """Call git once.

    Args:
        args: what stands behind `git`. cwd: an absolute directory.
        input: for its stdin, which is closed after it. timeout_s: then it and what it has started are killed.
        keep: names of the environment that count besides; OF_A_HOOK inside of one.
        accept: exit codes that are answers. hooks_path: core.hooksPath as it is, to ask for it.
        settings: `name=value`, as of `git -c`.

    Returns:
        Its stdout.

    Raises:
        GitFailed: not found, an exit code that is no answer, too slow, or more than OUTPUT_BYTES_MAX.
    """
    words = [*CALM, *(() if hooks_path else NO_HOOKS), *(word for each in settings for word in ("-c", each)), *args]
    named = next((word for word in args if isinstance(word, str) and not word.startswith("-")), "")
    try:
        said = call(
            words, cwd, environment(os.environ, keep), given=input, timeout_s=timeout_s,
            output_bytes_max=OUTPUT_BYTES_MAX,
        )  # fmt: skip
    except NotCalled as error:
        raise GitFailed(str(error)) from None
    except TooSlow:
        raise GitFailed(f"git {named} did not end within {timeout_s:g} s") from None
    except TooMuch:
        raise GitFailed(f"git {named} says more than {OUTPUT_BYTES_MAX // 1024 // 1024} MiB") from None
    if said.code not in accept:
        raise GitFailed(_complaint(named, said.code, said.complaint), said.code)
    return said.output


def environment(base: Mapping[str, str], keep: frozenset[str] = frozenset()) -> dict[str, str]:
    """What git is started with. Args: base: usually os.environ. keep: names that begin with GIT_ and count."""
    kept = {name: value for name, value in base.items() if not name.startswith("GIT_") or name in SETTINGS | keep}
    return kept | ALONE


def _complaint(named: str, code: int, complaint: bytes) -> str:
    """What git said was wrong: its first line that says so."""
    lines = [line.strip() for line in complaint.decode("utf-8", "replace").splitlines() if line.strip()]
    wrong = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else "")
    why = wrong.partition(": ")[2] if wrong.startswith(("fatal:", "error:")) else wrong
    return one_sentence(f"git {named} failed (exit {code}{f': {why}' if why else ''})")
