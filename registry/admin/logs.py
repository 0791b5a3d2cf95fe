# SPDX-License-Identifier: Apache-2.0
"""How does the server log? One JSON object a line on standard error, and no token in any of them."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from gunicorn.glogging import Logger

from registry.services.tokens import mask


class ServerLog(Logger):  # type: ignore[misc]  # gunicorn ships no types
    """Gunicorn's own lines without its access log: each request has its line already, with more in it."""

    access_log_enabled = False


class JsonFormatter(logging.Formatter):
    """Writes a record as one line of JSON: time, level, writer, message, and the fields that its writer gave."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record. Whatever looks like a token is cut, wherever it stands."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        # ASCII: what came in from outside must not steer the terminal of whoever reads this.
        return mask(_write(line))


# Made once: `json.dumps` would make one for each line.
_write = json.JSONEncoder(default=str, separators=(",", ":")).encode


def leave_out_of_records() -> None:
    """Do not look for what no line says: source lines, threads, tasks. It costs as much as writing the line.

    https://docs.python.org/3/howto/logging.html#optimization
    """
    logging._srcfile = None  # noqa: SLF001 - the documented way
    logging.logThreads = logging.logMultiprocessing = False


def log_settings(level: str) -> dict[str, Any]:
    """Give the configuration for `logging.config.dictConfig`, gunicorn's own lines included."""
    through_root = {"level": level.upper(), "handlers": [], "propagate": True}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": JsonFormatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}},
        "root": {"level": level.upper(), "handlers": ["stderr"]},
        "loggers": {"gunicorn.error": through_root, "gunicorn.access": through_root},
    }
