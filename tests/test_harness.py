# SPDX-License-Identifier: Apache-2.0
"""Can the tests' own ground be trusted? The clock, the throw-away PostgreSQL, and that it dies with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from tests.clock import Clock
from tests.postgres import Server

ROOT = Path(__file__).resolve().parents[1]
CHILD = "import time; from tests.postgres import Server; print(Server()._process.pid, flush=True); time.sleep(60)"


def test_the_clock_stands_still_until_it_is_told_to_move(clock: Clock, now: datetime) -> None:
    assert clock() == clock() == now

    assert clock.advance(1.5) == now + timedelta(seconds=1.5)
    assert clock() == now + timedelta(seconds=1.5)


def test_a_copied_database_holds_what_its_template_held_and_shares_nothing_with_it(postgres: Server) -> None:
    with psycopg.connect(postgres.create_database("origin")) as connection:
        connection.execute("CREATE TABLE crew (name text)")

    with psycopg.connect(postgres.create_database("copy", template="origin")) as connection:
        connection.execute("INSERT INTO crew VALUES ('Ada')")
    with psycopg.connect(postgres.url("origin")) as connection:
        left = connection.execute("SELECT count(*) FROM crew").fetchone()

    assert left == (0,)
    postgres.drop_database("copy")
    postgres.drop_database("origin")


def test_a_database_in_use_can_be_dropped(postgres: Server) -> None:
    with psycopg.connect(postgres.create_database("busy"), autocommit=True) as connection:
        postgres.drop_database("busy")

        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_postgres_opens_no_port(postgres: Server) -> None:
    with psycopg.connect(postgres.url()) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_postgres_dies_with_a_test_run_that_is_killed() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # the killed run cannot remove its files
        Path(folder).chmod(0o711)  # the server's user must reach its own folder in it
        environment = {**os.environ, "TMPDIR": folder}
        with subprocess.Popen([sys.executable, "-c", CHILD], cwd=ROOT, env=environment, stdout=subprocess.PIPE) as run:
            assert run.stdout is not None
            server = int(run.stdout.readline())

            run.send_signal(signal.SIGKILL)

        deadline = time.monotonic() + 20
        while _is_running(server) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not _is_running(server)


def _is_running(process: int) -> bool:
    """Is it there, and more than a zombie that nobody has waited for yet?"""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
