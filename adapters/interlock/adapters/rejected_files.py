"""Rejected files: what is no message is put aside, whatever it is, and why is said beside it."""

import hashlib
import os
import time

from interlock.adapters.folders import Folder
from interlock.adapters.safe_files import look_at

_NAME_BYTES_MAX = 200  # of a file's own name, so that what is added to it fits


def put_aside(folder: Folder, at: int, name: str, called: str, why: str) -> None:
    """Move a file, whatever it is, into rejected/, and say why beside it: first why, so that it is never without."""
    rejected = folder["rejected"]
    called = short_name_of(called)
    aside = next(
        each for each in (called, *(f"{called}.{number}" for number in range(1, 10_000)), f"{called}.{time.time_ns()}")
        if look_at(each, rejected) is None and look_at(f"{each}.why", rejected) is None
    )  # fmt: skip
    # Anew, never into what is there: that may be another name of anything.
    fd = os.open(aside + ".why", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=rejected)
    try:
        os.write(fd, why.encode("utf-8", "replace") + b"\n")
    finally:
        os.close(fd)
    try:
        os.rename(name, aside, src_dir_fd=at, dst_dir_fd=rejected)
    except OSError:
        os.unlink(aside + ".why", dir_fd=rejected)
        raise


def short_name_of(name: str) -> str:
    """A name that fits with what is added to it."""
    if len(os.fsencode(name)) <= _NAME_BYTES_MAX:
        return name
    return (
        os.fsdecode(os.fsencode(name)[: _NAME_BYTES_MAX - 10]) + "." + hashlib.sha256(os.fsencode(name)).hexdigest()[:8]
    )
