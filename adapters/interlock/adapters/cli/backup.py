"""`bus backup`: a copy of the database that can be put in its place."""

import contextlib
import os
import shutil
import time

import typer

from interlock.adapters.cli.app import Given


def command(path: str = typer.Argument(..., metavar="FILE", help="A new file, or a folder for one.")) -> int:
    """Copy the database while the bus runs; docs/operations/back-up-and-recover.md says how to put it back."""
    from interlock.adapters.cli.asking import ask_at_length
    from interlock.adapters.cli.connection import Connection
    from interlock.adapters.cli.options import Failure, say_out
    from interlock.adapters.cli.output import say_json

    target = os.path.abspath(os.path.expanduser(path))
    if path.endswith("/") and not os.path.isdir(target):
        raise Failure(73, f"there is no folder {target}: make it first")
    if os.path.isdir(target):
        target = os.path.join(target, f"interlock-{time.strftime('%Y%m%dT%H%M%S')}.db")
    if os.path.lexists(target):
        raise Failure(73, f"{target} exists, and a backup overwrites nothing: give another name")
    if not os.path.isdir(os.path.dirname(target)):
        raise Failure(73, f"there is no folder {os.path.dirname(target)}: make it first")
    with Connection(Given.options, notices=False) as connection:
        made = ask_at_length(connection, "BACKUP")
    try:
        _take(made["path"], target)
    except OSError as error:
        raise Failure(73, f"{target} cannot be written ({error.strerror}): give another place") from None
    finally:
        with contextlib.suppress(OSError):
            os.unlink(made["path"])
    if Given.options.json:
        say_json({"path": target, "records": made["records"], "seq": made["seq"], "bytes": os.path.getsize(target)})
    else:
        say_out(f"backed up: {target} ({made['records']} records, to event {made['seq']})")
    return 0


def _take(made: str, target: str) -> None:
    """Under its new name, whole, or not at all; never over another file."""
    try:
        os.link(made, target, follow_symlinks=False)
        return
    except FileExistsError:
        raise
    except OSError:
        pass  # another file system, or one without links
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as copy, open(made, "rb") as source:
            shutil.copyfileobj(source, copy, 1024 * 1024)
            copy.flush()
            os.fsync(copy.fileno())
    except BaseException:
        os.unlink(target)
        raise
