"""The supervisor's own log: JSON lines into a file of bounded size, readable lines on a terminal."""

import logging
import logging.handlers
import sys
from pathlib import Path

import structlog

LOG_BYTES_MAX = 8 * 1024 * 1024
LOG_FILES_KEPT = 3


def configure_logs(path: Path, *, pretty: bool) -> None:
    """Args: path: of the log file. pretty: to this terminal instead (`bus up --foreground`)."""
    shared: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if pretty:
        structlog.configure(processors=[*shared, structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback  # the others show variables
        )],
                            logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # fmt: skip
        return
    handler = logging.handlers.RotatingFileHandler(
        path, maxBytes=LOG_BYTES_MAX, backupCount=LOG_FILES_KEPT, encoding="utf-8", errors="backslashreplace"
    )
    handler.setFormatter(logging.Formatter("%(message)s"))
    root = logging.getLogger("interlock")
    for logger in (root, logging.getLogger("asyncio")):  # what its callbacks raise is our fault too
        logger.handlers[:] = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, structlog.processors.JSONRenderer()],
        logger_factory=lambda *_: root,
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
