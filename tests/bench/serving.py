# SPDX-License-Identifier: Apache-2.0
"""How is the measured server started, and what did it use? Processor time and memory are read from /proc."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from registry.admin.migrate import bring_up_to_date
from registry.config import Settings
from registry.domain.policy import Policy
from tests.project import ROOT

PEPPER = "bench-pepper-bench-pepper-bench-pepper"
WORKERS, THREADS = 2, 4
SETTLE_SECONDS = 5
_TICKS = os.sysconf("SC_CLK_TCK")

SETTINGS = {
    "PRATIQUE_SECRET_KEY": PEPPER,
    "PRATIQUE_SIGNING_KEY": "b5" * 32,
    # Loaded nodes report now and then only, and each report is to count as those of a fleet do.
    "PRATIQUE_REPORT_STALE_SECONDS": "86400",
    "PRATIQUE_PASS_MAX_AGE_SECONDS": "86400",
    "PRATIQUE_PASS_GAP_SECONDS": "0",
}


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers at `url`."""

    url: str
    pid: int


def served_policy() -> Policy:
    """The policy of the servers that are measured: what a node's row knows of its reports is known under it."""
    return Settings.from_env({**SETTINGS, "PRATIQUE_DATA_DIR": "."}).policy


@contextmanager
def server(
    url: str, folder: Path, preload: dict[str, str], *, workers: int = WORKERS, threads: int = THREADS
) -> Iterator[Running]:
    """Serve the database at `url` while the block lasts. `preload` is the environment that slows its disk."""
    ours = {**SETTINGS, "PRATIQUE_DATABASE_URL": url, "PRATIQUE_DATA_DIR": str(folder)}
    bring_up_to_date(Settings.from_env(ours))
    others = {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}
    command = [sys.executable, "-m", "tests.bench.entry", "serve", "--bind", "127.0.0.1:0"]
    command += ["--workers", str(workers), "--threads", str(threads)]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**others, **ours, **preload}, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("listening on "), (folder / "server.log").read_text()
            yield Running(line.split()[-1], process.pid)
        finally:
            process.terminate()
            process.wait(60)
            if process.stdout is not None:
                process.stdout.close()


def slow_disk(folder: Path, milliseconds: int) -> dict[str, str] | None:
    """Build the library that adds so much to each fsync; None where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "slow_fsync.so"
    source = Path(__file__).with_name("slow_fsync.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
    library.chmod(0o755)
    return {"LD_PRELOAD": str(library), "BENCH_FSYNC_MS": str(milliseconds)}


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        fields = _stat(int(entry.name))
        if fields:
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def cpu_seconds(pid: int) -> float:
    """Processor time that a process and its children have used, those that ended included."""
    return sum(sum(map(int, fields[11:15])) for one in family(pid) if (fields := _stat(one))) / _TICKS


def settle(pid: int) -> None:
    """Wait until a server has done what nobody waits for any more: a generator that ends leaves its last requests."""
    deadline, before = time.monotonic() + SETTLE_SECONDS, -1.0
    while (now := cpu_seconds(pid)) > before + 1 / _TICKS and time.monotonic() < deadline:
        before = now
        time.sleep(0.1)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on (man 5 proc); none for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []


def private_bytes(pid: int) -> int:
    """Memory of its own that the largest of these processes holds: pages of the database file are left out."""
    sizes = [0]
    for one in family(pid):
        try:
            status = Path(f"/proc/{one}/status").read_text()
        except OSError:
            continue
        sizes += [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon")]
    return max(sizes)


def unique_bytes(pid: int) -> dict[int, int]:
    """Memory that would be free again if it ended, for a process and each that descends from it: USS.

    https://docs.kernel.org/filesystems/proc.html, smaps_rollup: the two lines `Private_`.
    """
    sizes = {}
    for one in family(pid):
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        sizes[one] = sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Private_C", "Private_D")))
    return sizes


class Peak:
    """Watches the memory of a server while a block lasts; `growth` is how far it rose above where it began."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._first = self.highest = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def growth(self) -> int:
        """Bytes."""
        return self.highest - self._first

    def __enter__(self) -> Self:
        self._first = self.highest = private_bytes(self._pid)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopping.wait(0.2):
            self.highest = max(self.highest, private_bytes(self._pid))
