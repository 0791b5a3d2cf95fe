# SPDX-License-Identifier: Apache-2.0
"""How does the controller log? One JSON object a line on standard error, in the form of the server's lines."""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Protocol

NAME = "pratique.controller"


class Say(Protocol):
    """Takes a sentence for the log, and facts beside it."""

    def __call__(self, message: str, *, level: str = "info", **fields: Any) -> None:
        """Write one line."""


class Log:
    """Writes lines; may be shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, message: str, *, level: str = "info", **fields: Any) -> None:
        """Write one line. ASCII: what came in from outside must not steer the terminal of whoever reads it."""
        line = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": level,
            "logger": NAME,
            "process": os.getpid(),
            "message": message,
            **fields,
        }
        text = json.dumps(line, default=str, separators=(",", ":"))
        with self._lock, suppress(OSError):  # a log on a full disk is no reason to stop
            print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is the log
