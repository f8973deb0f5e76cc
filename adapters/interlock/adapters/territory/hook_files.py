"""Hooks put in, looked at and taken away. Whatever was there is run, and is there again when ours are gone.

    in place     hooks/pre-commit (ours) ── runs ──▶ hooks-before-bus/pre-commit (the very file that was there)
                 hooks-before-bus/ has links to its neighbours besides: what looks for a file beside itself finds it
    own folder   core.hooksPath ──▶ interlock/hooks/* (ours) ── run ──▶ what core.hooksPath led to, where it is

At no moment is a hook missing that was there: ours come by rename, over a file that has a second name by then.
"""

import contextlib
import os
import secrets
import shutil

import msgspec

from interlock.adapters.kept_list import now
from interlock.adapters.small_files import read_regular
from interlock.adapters.territory.git_calls import GitFailed, run
from interlock.adapters.territory.hook_place import GIT_S, KEPT, HookPlace
from interlock.adapters.territory.hook_record import Record, forget_record, one_at_a_time, read_record, write_record
from interlock.adapters.territory.hook_text import CHECKED, MARK, OTHERS, beside, checked_hook, of_former, passed_on

NEIGHBOURS_MAX = 256
HOOK_BYTES_MAX = 64 * 1024
LEGACY = ".legacy"  # what the pre-commit framework calls a hook that it found, and runs


class CannotInstall(Exception):
    """Something is in the way; the text is one sentence."""


class NothingInstalled(Exception):
    """There is nothing to take away; the text is one sentence."""


class Seen(msgspec.Struct, frozen=True):
    """Hooks that were installed, as they are now.

    Args:
        record: of the installation; None: there is none.
        hooks: what is in the place of each: "ours", "behind" (what replaced it runs it), "missing", "replaced",
            "not executable".
        led_elsewhere: core.hooksPath is another one than at the installation, or than it was made.
    """

    record: Record | None
    hooks: dict[str, str]
    led_elsewhere: bool = False

    @property
    def works(self) -> bool:
        """Every one is called."""
        return self.record is not None and not self.led_elsewhere and {*self.hooks.values()} <= {"ours", "behind"}


def look(place: HookPlace) -> Seen:
    """What is installed. Raises nothing of its own."""
    record = read_record(place.folder)
    if record is None:
        return Seen(None, {})
    hooks = {hook: _state(record.directory, hook) for hook in record.hooks}
    return Seen(record, hooks, not _leads_to(place, record))


def why_off(place: HookPlace, seen: Seen) -> str:
    """Why hooks that were installed are not called, in a few words; "" where they are."""
    if seen.led_elsewhere:
        return f"git looks into {place.looked_at} now (core.hooksPath)"
    words = {"missing": "is gone", "replaced": "was replaced by another tool", "not executable": "is not executable"}
    return ", ".join(f"{hook} {words[state]}" for hook, state in seen.hooks.items() if state in words)


def install(place: HookPlace, *, mode: str = "", bus: str) -> tuple[Record, bool]:
    """Put hooks in. Where they are in already, nothing changes but what is asked for.

    Args:
        mode: one of hook_text.MODES; "": as it was, or advisory.
        bus: absolute path of the command that they call; "": whichever is on PATH.

    Returns:
        What is installed now, and whether anything was changed.

    Raises:
        CannotInstall, OSError, hook_record.Busy.
    """
    if place.scope == "worktree" and not place.is_ours:
        why = "core.hooksPath is set for this worktree alone, and hooks for all cannot be put beside it"
        raise CannotInstall(f"{why}: git config --worktree --unset core.hooksPath, then again")
    with one_at_a_time(place.common):
        before = look(place)
        wanted = _wanted(place, before, mode or (before.record.mode if before.record else "advisory"), bus)
        if before.record is not None and before.record.own != wanted.own:
            _take_away(place, before.record)  # since then core.hooksPath was set, or is not set any more
            before = Seen(None, {})
        changed = wanted != before.record
        if changed:
            os.makedirs(place.folder, mode=0o755, exist_ok=True)
            write_record(place.folder, wanted)  # first: whatever breaks off here can be taken away
        return wanted, _put(place, wanted) or changed


def remove(place: HookPlace) -> tuple[Record, list[str]]:
    """Take ours away, and put back what was there.

    Returns:
        What was installed, and sentences about what could not be as it was.

    Raises:
        NothingInstalled, CannotInstall, OSError, hook_record.Busy.
    """
    with one_at_a_time(place.common):
        record = read_record(place.folder)
        if record is None:
            raise NothingInstalled("no hooks of bus are installed here")
        return record, _take_away(place, record)


def is_ours(path: str) -> bool:
    """Whether that file is a hook that we wrote; a link never is."""
    try:
        return MARK.encode() in read_regular(path, HOOK_BYTES_MAX).split(b"\n")[:3]
    except OSError:
        return False


def _wanted(place: HookPlace, before: Seen, mode: str, bus: str) -> Record:
    """What is to be there. An installation that is as it should be keeps its token and its time."""
    known = before.record
    token, at = (known.token, known.at) if known else (secrets.token_hex(6), now())
    if place.is_plain:
        made = known.made if known and not known.own else () if os.path.isdir(place.default) else (place.default,)
        return Record(token, mode, bus, place.default, hooks=CHECKED, made=made, at=at)
    if place.is_ours and known is not None:
        return msgspec.structs.replace(known, mode=mode, bus=bus)
    lost = place.is_ours  # it leads to ours, but who knows what was before
    former = place.default if lost else place.said or place.default
    raw = place.raw if place.scope == "local" and not lost else None
    return Record(token, mode, bus, place.own, own=True, former=former, raw=raw, hooks=CHECKED, at=at)


# --- putting in ----------------------------------------------------------------------------------
def _put(place: HookPlace, record: Record) -> bool:
    """Write what is not there, or is another. Returns whether anything was."""
    changed = False
    os.makedirs(record.directory, mode=0o755, exist_ok=True)
    if not record.own:
        for hook in record.hooks:
            _must_be_free(place, record, hook)
    for hook in record.hooks:
        if not record.own and _state(record.directory, hook) == "behind":
            continue
        former = of_former(record.former, hook) if record.own else beside(KEPT, hook)
        text = checked_hook(hook, mode=record.mode, bus=record.bus, former=former, token=record.token)
        changed |= _write(place, record, hook, text)
    if record.own:
        for hook in _passed(place, record):
            changed |= _write(place, record, hook, passed_on(of_former(record.former, hook)))
        if not place.is_ours:
            _configure(place, ["core.hooksPath", place.own])
            changed = True
    return changed


def _passed(place: HookPlace, record: Record) -> set[str]:
    """The hooks that are only passed on: those that git may run at any time, and whatever else is there."""
    there: set[str] = set()
    with contextlib.suppress(OSError):
        found = os.scandir(os.path.join(place.top or place.common, record.former))
        there = {each.name for each in found if "." not in each.name and each.is_file() and os.access(each, os.X_OK)}
    git_knows = {each for each in there if (each.replace("-", "").isalpha() and "-" in each) or each == "update"}
    return ({*OTHERS} | git_knows) - {*record.hooks}


def _must_be_free(place: HookPlace, record: Record, hook: str) -> None:
    """What is in its place can be kept. Raises CannotInstall."""
    path, kept = os.path.join(record.directory, hook), os.path.join(place.common, KEPT, hook)
    if not os.path.lexists(path) or is_ours(path):
        return
    if os.path.isdir(path) and not os.path.islink(path):
        raise CannotInstall(f"{path} is a folder, and no hook can have its name: move it away, then again")
    same = os.path.lexists(kept) and os.path.samestat(os.lstat(path), os.lstat(kept))
    if os.path.lexists(kept) and not same and _state(record.directory, hook) != "behind":
        why = f"{path} has replaced that of bus, and what was there before it is kept in {kept}"
        raise CannotInstall(f"{why}: put together in one of them what is to run, move the other away, then again")


def _write(place: HookPlace, record: Record, hook: str, text: str) -> bool:
    """One hook, keeping what is in its place. Returns whether it had to be written. Raises OSError."""
    path, data = os.path.join(record.directory, hook), os.fsencode(text)
    if is_ours(path):
        if read_regular(path, HOOK_BYTES_MAX) == data and os.access(path, os.X_OK):
            return False
    elif os.path.lexists(path) and not record.own:
        _keep(place, record.directory, hook)
    new = f"{path}.{secrets.token_hex(4)}.new"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o755)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.rename(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise
    return True


def _keep(place: HookPlace, directory: str, hook: str) -> None:
    """Give what is there a second name beside, in a folder where its neighbours can be reached from it too."""
    folder = os.path.join(place.common, KEPT)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    kept = os.path.join(folder, hook)
    if not os.path.lexists(kept):
        _second_name(os.path.join(directory, hook), kept)
    for name in sorted(os.listdir(directory))[:NEIGHBOURS_MAX]:
        if name not in CHECKED and not name.endswith((".sample", ".new")):
            with contextlib.suppress(FileExistsError):
                os.symlink(os.path.join("..", os.path.basename(directory), name), os.path.join(folder, name))


def _second_name(path: str, kept: str) -> None:
    """Another name for the same file; a copy where the file system or the file's owner allows none."""
    try:
        os.link(path, kept, follow_symlinks=False)
    except OSError:
        shutil.copy2(path, kept, follow_symlinks=False)


# --- taking away ---------------------------------------------------------------------------------
def _take_away(place: HookPlace, record: Record) -> list[str]:
    """Put everything back that can be. Returns what could not. Raises OSError."""
    notes = []
    if record.own:
        if place.is_ours:
            _configure(
                place, ["core.hooksPath", record.raw] if record.raw is not None else ["--unset", "core.hooksPath"]
            )
        for name in _names(record.directory):
            if is_ours(path := os.path.join(record.directory, name)):
                os.unlink(path)
            else:
                notes.append(f"{path} was put there by another tool, and is left")
        with contextlib.suppress(OSError):
            os.rmdir(record.directory)
    else:
        notes = [note for hook in record.hooks if (note := _put_back(place, record.directory, hook))]
        _forget_neighbours(os.path.join(place.common, KEPT))
    for folder in record.made:
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    forget_record(place.folder)
    return notes


def _put_back(place: HookPlace, directory: str, hook: str) -> str:
    """One hook as it was before. Returns a sentence where it cannot be, else "". Raises OSError."""
    path, kept = os.path.join(directory, hook), os.path.join(place.common, KEPT, hook)
    if is_ours(path) or not os.path.lexists(path):
        if os.path.lexists(kept):
            os.rename(kept, path)
        elif os.path.lexists(path):
            os.unlink(path)
        return ""
    if is_ours(path + LEGACY):
        if os.path.lexists(kept):
            os.rename(kept, path + LEGACY)
        else:
            os.unlink(path + LEGACY)
        return ""
    if os.path.lexists(kept):
        return f"{path} was put there by another tool, and is left; what was there before is {kept}"
    return ""


def _forget_neighbours(folder: str) -> None:
    """Our links to neighbours, and their folder where nothing else is in it."""
    for name in _names(folder):
        path = os.path.join(folder, name)
        if os.path.islink(path) and os.readlink(path) == os.path.join("..", "hooks", name):
            os.unlink(path)
    with contextlib.suppress(OSError):
        os.rmdir(folder)


# --- looking -------------------------------------------------------------------------------------
def _state(directory: str, hook: str) -> str:
    """What is in a hook's place."""
    path = os.path.join(directory, hook)
    if is_ours(path):
        return "ours" if os.access(path, os.X_OK) else "not executable"
    if is_ours(path + LEGACY) and os.access(path, os.X_OK):
        return "behind"
    return "replaced" if os.path.lexists(path) else "missing"


def _leads_to(place: HookPlace, record: Record) -> bool:
    """Git still looks where they are."""
    return os.path.realpath(place.looked_at) == os.path.realpath(record.directory)


def _configure(place: HookPlace, words: list[str]) -> None:
    """Change the repository's own configuration. Raises CannotInstall."""
    try:
        run(["config", "--local", *words], place.top or place.common, timeout_s=GIT_S)
    except GitFailed as error:
        raise CannotInstall(f"core.hooksPath cannot be changed: {error}; try again") from None


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
