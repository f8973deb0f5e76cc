"""What `bus` executes. Until entry.py can answer Ctrl-C, that ends this program as any other: no traceback.

Only the program imports this: a library may not take Ctrl-C away from whoever imports it.
"""

import _signal  # type: ignore[import-not-found]  # what `signal` is made of, without the enums that take it a millisecond

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # else whoever started us wants it ignored
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

from interlock.adapters.cli.entry import main

__all__ = ["main"]
