# SPDX-License-Identifier: Apache-2.0
"""How do the tests run a controller? As a process of its own, against the emulated cluster and a real server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kubernetes.emulator import Emulator

INTERVAL_SECONDS = 0.2
LEASE_SECONDS = 3.0
WAIT_SECONDS = 30.0
"""How long a test waits for what should come within a second or two: two cores are shared by many."""


class RunningController:
    """`pratique controller` as a process."""

    def __init__(self, api: Emulator, url: str, token: str, folder: Path, *more: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log_file = folder / "controller.log"
        timing = ("--interval", str(INTERVAL_SECONDS), "--lease-seconds", str(LEASE_SECONDS))
        self.command = [sys.executable, "-m", "registry.main", "controller", "--api-server", api.url, *timing, *more]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}
        self.environment = {**inherited, "PRATIQUE_URL": url, "PRATIQUE_TOKEN": token}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(self.command, env=self.environment, stderr=log, stdin=subprocess.DEVNULL)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send it a signal and give its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(WAIT_SECONDS)
        self.process = None
        return code

    def lines(self) -> list[dict[str, Any]]:
        """What it logged."""
        return [json.loads(line) for line in self.log_file.read_text().splitlines()]

    def said(self, message: str) -> list[dict[str, Any]]:
        """The lines with this message."""
        return [line for line in self.lines() if line["message"] == message]


def wait_for(what: Callable[[], object], why: Callable[[], object] = lambda: "") -> None:
    """Wait until it is true. Raises AssertionError."""
    until = time.monotonic() + WAIT_SECONDS
    while not what():
        assert time.monotonic() < until, why()
        time.sleep(0.02)


def stays(what: Callable[[], object], seconds: float = 4 * INTERVAL_SECONDS) -> bool:
    """Is it true for so long?"""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not what():
            return False
        time.sleep(0.02)
    return True


def done(ran: subprocess.CompletedProcess[str]) -> str:
    """What a command printed, which must have ended well."""
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
