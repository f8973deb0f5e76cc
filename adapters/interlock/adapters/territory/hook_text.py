"""The hooks' own text: POSIX sh, which runs what was there before it, then `bus`.

It must work where nothing of this package is left: then it says so, and lets pass unless it is to refuse.
"""

from shlex import quote

from interlock.adapters.own_files import mark

MODES = ("advisory", "hard_fail")
CHECKED = ("pre-commit", "post-commit", "pre-push")  # those that call bus
# What a client's git runs besides, whose being there means nothing by itself; husky has the same list.
OTHERS = (
    "applypatch-msg", "pre-applypatch", "post-applypatch", "pre-merge-commit", "prepare-commit-msg", "commit-msg",
    "pre-rebase", "post-checkout", "post-merge", "post-rewrite", "pre-auto-gc",
)  # fmt: skip
REFUSED = 77  # bus's own word for no; whatever else is not 0 means that it could not say
MARK = "# " + mark("bus hooks install", "bus hooks remove")


def checked_hook(hook: str, *, mode: str, bus: str, former: str, token: str) -> str:
    """The text of a hook that calls bus.

    Args:
        hook: one of CHECKED. mode: one of MODES. bus: absolute path of the command; "": whichever is on PATH then.
        former: sh for the path of what was there before. token: told to what is called, so that it ends where that
            leads back here.
    """
    pipe, stdin = (
        ('printf %s "$given" | ', "given=$(cat; echo .); given=${given%.}\n") if hook == "pre-push" else ("", "")
    )
    what = "this push" if hook == "pre-push" else "this commit"
    if hook == "post-commit":
        end = "exit 0\n"
    elif mode == "hard_fail":
        end = (
            f'[ "$status" = 0 ] && exit 0\n[ "$status" = {REFUSED} ] && exit 1\n'
            f'echo "bus: refused: $why, so {what} cannot be checked against leases: mend that, or this once: '
            f'git {hook.removeprefix("pre-")} --no-verify" >&2\nexit 1\n'
        )
    else:
        end = (
            f'[ "$status" = 0 ] || [ "$status" = {REFUSED} ] || '
            f'echo "bus: $why, so {what} goes on unchecked" >&2\nexit 0\n'
        )
    return (
        f"#!/bin/sh\n{MARK}\n"
        "# First what was here before, with the same arguments and stdin: its failure is this hook's. Then bus.\n"
        f"before={former}\nbus={quote(bus)}\nseen={quote(f'{token}:{hook}:')}$PWD\n"
        f'[ "${{INTERLOCK_HOOK-}}" != "$seen" ] || exit 0 # what was here before leads back here\n{stdin}'
        f'if [ -f "$before" ] && [ -x "$before" ]; then\n'
        f'    {pipe}INTERLOCK_HOOK=$seen "$before" "$@" || exit $?\nfi\n'
        '[ -x "$bus" ] || bus=$(command -v bus) || bus=\n'
        'if [ -n "$bus" ]; then\n'
        f'    {pipe}"$bus" hooks run {hook} --mode {mode} -- "$@"\n'
        '    status=$?\n    why="$bus failed (exit $status)"\n'
        "else\n    status=127\n    why='bus is not found'\nfi\n" + end
    )


def passed_on(former: str) -> str:
    """The text of a hook that only runs the one of the former folder. Args: former: sh for its path."""
    return (
        f"#!/bin/sh\n{MARK}\n"
        "# What core.hooksPath led to before has the word: bus has nothing to say here.\n"
        f'before={former}\n[ -f "$before" ] && [ -x "$before" ] || exit 0\nexec "$before" "$@"\n'
    )


def beside(kept: str, hook: str) -> str:
    """sh for a file of the folder beside the one that the hook itself is in: true wherever the repository moves."""
    return f"${{0%/*}}/../{quote(kept)}/{quote(hook)}"


def of_former(folder: str, hook: str) -> str:
    """sh for a file of the former folder; a relative one begins where git runs hooks."""
    return quote(f"{folder}/{hook}")
