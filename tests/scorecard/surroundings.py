# SPDX-License-Identifier: Apache-2.0
"""Where was it measured? Versions, processors, and how long this disk takes to keep a page."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

from registry.store.database import sqlite_gate
from tests.postgres import find_programs
from tests.scorecard.ground import folder

SYNCS = 100


def describe(engine: str) -> dict[str, str]:
    """Say where and when this is: `date`, `versions`, `machine`, `fsync_ms`."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "versions": f"pratique {version('pratique')}, Python {platform.python_version()}, {_engine_version(engine)}",
        "machine": f"{os.cpu_count()} CPUs, {_model()}, load {os.getloadavg()[0]:.1f}",
        "fsync_ms": f"{fsync_milliseconds():.2f}",
    }


@cache
def _engine_version(engine: str) -> str:
    if engine == "sqlite":
        gate = sqlite_gate()
        return f"SQLite {gate.version} ({gate.journal})"
    said = subprocess.run([find_programs() / "postgres", "--version"], capture_output=True, text=True, check=True)
    return f"PostgreSQL {said.stdout.split()[2]}"


def _model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def fsync_milliseconds() -> float:
    """Write a page and wait for the disk, many times; the median."""
    took = []
    with folder() as here, (here / "page").open("wb", buffering=0) as file:
        for _ in range(SYNCS):
            file.write(b"\0" * 4096)
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - begun)
    return statistics.median(took) * 1000
