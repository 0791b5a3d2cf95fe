# SPDX-License-Identifier: Apache-2.0
"""How fast is the service through HTTP, beside what any request must cost, on each engine, fleet and disk?

    python -m tests.bench.http [--sizes small,large] [--engines sqlite,postgresql] [--disks 0,4] [--rows a,b,…]
                               [--rounds 5] [--seconds 2] [--data FOLDER]

The rows take turns, a few seconds each; a figure is the median of its rounds, a ratio the median of the ratios within
the rounds. So a neighbour on the same machine moves the digits more than the ratios. Nothing is asserted: aims are
printed beside.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from registry.store.database import Database, open_database
from registry.store.engines import sqlite
from tests.bench import load, machine, rows, table
from tests.bench.generator import ask
from tests.bench.serving import PEPPER, Peak, Running, cpu_seconds, server, settle, slow_disk
from tests.postgres import Server

SIZES = {size.name: size for size in (load.SMALL, load.LARGE)}
EXPORT_LINES_MAX = 5_000_000


@dataclass(frozen=True, slots=True)
class Setting:
    """One server that is measured: engine, fleet, and milliseconds added to each fsync."""

    engine: str
    size: str
    disk: int


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of one round. `events` is how many entries each request left in the history."""

    row: str
    per_second: float
    refused: int
    p50: float
    p99: float
    cpu_us: float
    database_us: float
    events: float


def measure(
    setting: Setting,
    asked: argparse.Namespace,
    running: Running,
    postgres: Server | None,
    files: dict[str, Path],
    db: Database,
) -> list[list[Figure]]:
    """Let the rows take turns."""
    wanted = [row for row in rows.ROWS if row.name in asked.rows]
    for row in wanted:  # so that nobody pays for opening connections and reading pages
        _window(row, 1, running, postgres, files, db)
    return [[_window(row, asked.seconds, running, postgres, files, db) for row in wanted] for _ in range(asked.rounds)]


def _window(
    row: rows.Row, seconds: float, running: Running, postgres: Server | None, files: dict[str, Path], db: Database
) -> Figure:
    settle(running.pid)
    used, used_there, head = cpu_seconds(running.pid), _database_cpu(postgres), _head(db)
    window = ask(running.url, files[row.name], seconds)
    count = max(1, window.requests)
    found = Figure(
        row.name,
        window.requests / window.seconds,
        window.refused,
        window.p50,
        window.p99,
        (cpu_seconds(running.pid) - used) / count * 1e6,
        (_database_cpu(postgres) - used_there) / count * 1e6,
        (_head(db) - head) / count,
    )
    if row.name == "f":
        rows.end_holds(db, datetime.now(UTC))
    return found


def _database_cpu(postgres: Server | None) -> float:
    return cpu_seconds(postgres.pid) if postgres else 0.0


def _head(db: Database) -> int:
    with db.read() as snapshot:
        return snapshot.sequence()


def export(running: Running, secret: str) -> tuple[float, int, int]:
    """Read the whole history: lines a second, lines, and bytes by which the server's memory rose."""
    address = urlsplit(running.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port)
    with Peak(running.pid) as memory:
        begun, lines = time.monotonic(), 0
        connection.request("GET", "/v1/events/export", headers={"Authorization": f"Bearer {secret}"})
        answer = connection.getresponse()
        while lines < EXPORT_LINES_MAX and (piece := answer.read(1 << 20)):
            lines += piece.count(b"\n")
        seconds = time.monotonic() - begun
    connection.close()
    return lines / seconds, lines, memory.growth


def run(setting: Setting, asked: argparse.Namespace, data: Path) -> table.Block | None:
    """Measure one setting. None, with a sentence, where its disk cannot be made slow."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL, as another user, loads the library from here
        preload = slow_disk(folder, setting.disk) if setting.disk else {}
        if preload is None:
            print("There is no C compiler here: nothing is measured on a slow disk.")
            return None
        with load.kept(setting.engine, [SIZES[setting.size]], data, PEPPER.encode(), preload) as ((url,), postgres):
            db = open_database(url)
            with server(url, folder, preload) as running:
                files = rows.write_all(folder, SIZES[setting.size], db, PEPPER.encode(), datetime.now(UTC))
                before = os.getloadavg()[0]
                figures = measure(setting, asked, running, postgres, files, db)
                exports = _exports(setting, asked, running, files)
            db.close_all()
    return table.Block(**asdict(setting), load=before, rounds=figures, exports=exports)


def _exports(
    setting: Setting, asked: argparse.Namespace, running: Running, files: dict[str, Path]
) -> list[tuple[float, int, int]]:
    if setting.disk or "e" not in asked.rows:
        return []
    secret = files["export"].read_text()
    return [export(running, secret) for _ in range(1 if setting.size == "large" else asked.rounds)]


def machine_line() -> str:
    """Say on what it was measured."""
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    wrk = shutil.which("wrk")
    version = subprocess.run([wrk, "-v"], capture_output=True, text=True, check=False).stdout if wrk else "no wrk"
    cores = f"{len(names)} x {names[0].partition(': ')[2]}" if names else platform.machine()
    programs = f"Python {platform.python_version()}, SQLite {sqlite.sqlite_version}, {version[:16].strip()}"
    return f"{cores}, {programs}; {machine.GPUS} GPUs and {machine.EFAS} EFAs a node"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = {"type": lambda text: text.split(",")}
    parser.add_argument("--sizes", default=["small"], **words)
    parser.add_argument("--engines", default=["sqlite", "postgresql"], **words)
    parser.add_argument("--disks", default=["0", "4"], **words, help="milliseconds added to each fsync")
    parser.add_argument("--rows", default=[*(row.name for row in rows.ROWS), "e"], **words)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--data", type=Path, help="where fleets are kept for the next run; every user must reach it")
    asked = parser.parse_args()
    print(machine_line())
    with tempfile.TemporaryDirectory() as name:
        data = asked.data or Path(name)
        data.mkdir(exist_ok=True)
        data.chmod(0o755)
        blocks = []
        for disk in map(int, asked.disks):
            for size in asked.sizes:
                for engine in asked.engines:
                    block = run(Setting(engine, size, disk), asked, data.absolute())
                    if block is not None:
                        blocks.append(block)
                        table.show(block)
        table.compare(blocks)
        (data / "figures.json").write_text(json.dumps([asdict(block) for block in blocks], indent=1))


if __name__ == "__main__":
    main()
