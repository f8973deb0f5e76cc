"""Files outside of the home that the bus writes for a person: each says so at its top, and no other is touched."""

import os
from pathlib import Path

WRITTEN = "Written by Interlock ("  # how the mark of each begins, within the first lines
LINES = 3


class NotOurs(Exception):
    """It cannot be written; the text is one sentence with what to do."""


def mark(wrote: str, removes: str) -> str:
    """The line that says whose file it is. Args: wrote, removes: commands."""
    return f"{WRITTEN}{wrote}); {removes} removes it."


def is_ours(path: Path) -> bool:
    """Whether we wrote it; a link never is."""
    try:
        text = "" if path.is_symlink() else path.read_text()
    except (OSError, UnicodeDecodeError):
        return False
    return any(WRITTEN in line for line in text.splitlines()[:LINES])


def write_ours(files: dict[Path, str]) -> list[Path]:
    """Write each, whole or not at all.

    Returns:
        Those that changed.

    Raises:
        NotOurs: one is somebody else's, and then none is written; or a directory cannot be written.
    """
    for path in files:
        if os.path.lexists(path) and not is_ours(path):
            raise NotOurs(f"{path} was not written by bus, and is left as it is: move it away")
    changed = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    try:
        for path in changed:
            path.parent.mkdir(parents=True, exist_ok=True)
            new = path.with_name(f".{path.name}.new")
            new.write_text(files[path])
            new.replace(path)
    except OSError as error:
        raise NotOurs(f"{error.filename} cannot be written ({error.strerror}): mend that, then again") from None
    return changed


def remove_ours(paths: list[Path]) -> list[Path]:
    """Remove those that are ours; which they were."""
    found = [path for path in paths if is_ours(path)]
    for path in found:
        path.unlink(missing_ok=True)
    return found
