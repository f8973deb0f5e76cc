"""Rejected files: what is no message is put aside, whatever it is, and why is said beside it."""

import contextlib
import hashlib
import os
import time

from interlock.adapters.folders import Folder
from interlock.adapters.private_files import write_new
from interlock.adapters.safe_files import look_at

_NAME_BYTES_MAX = 200  # of a file's own name, so that what is added to it fits


def put_aside(folder: Folder, at: int, name: str, called: str, why: str) -> None:
    """Move a file, whatever it is, into rejected/, and say why beside it: first why, so that it is never without."""
    rejected = folder["rejected"]
    called = short_name_of(called)
    names = (called, *(f"{called}.{number}" for number in range(1, 10_000)), f"{called}.{time.time_ns()}")
    aside = next(each for each in names if _is_free(each, rejected))
    reason = aside + ".why"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(reason, dir_fd=rejected)  # of one that a crash kept from coming here
    try:
        write_new(rejected, reason, why.encode("utf-8", "replace") + b"\n")  # anew, never into what is there
        os.rename(name, aside, src_dir_fd=at, dst_dir_fd=rejected)
    except OSError:  # it is tried again, and must not leave a reason each time
        with contextlib.suppress(OSError):
            os.unlink(reason, dir_fd=rejected)
        raise


def _is_free(name: str, rejected: int) -> bool:
    """Nothing has that name, nor is there a rejected file where its reason would be; a reason alone is a crash's."""
    reason = look_at(f"{name}.why", rejected)
    if look_at(name, rejected) is not None:
        return False
    return reason is None or (not reason.why_not and look_at(f"{name}.why.why", rejected) is None)


def short_name_of(name: str) -> str:
    """A name that fits with what is added to it."""
    if len(os.fsencode(name)) <= _NAME_BYTES_MAX:
        return name
    return (
        os.fsdecode(os.fsencode(name)[: _NAME_BYTES_MAX - 10]) + "." + hashlib.sha256(os.fsencode(name)).hexdigest()[:8]
    )
