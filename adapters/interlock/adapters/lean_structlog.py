"""structlog without rich, for the supervisor: nothing of its log is drawn by it, and it is a tenth of each start.

structlog imports rich where it is installed, as it is with typer. To be imported before whatever imports structlog.
"""

import sys

_before = sys.modules.get("rich")
sys.modules["rich"] = None  # type: ignore[assignment] # it counts as not installed, for as long as this takes
try:
    import structlog as structlog  # noqa: PLC0414 - it is to be had from here
finally:
    if _before is None:
        del sys.modules["rich"]
    else:
        sys.modules["rich"] = _before
