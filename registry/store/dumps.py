# SPDX-License-Identifier: Apache-2.0
"""How is a PostgreSQL database written to a file, and back? By PostgreSQL's own programs, in the view that we read."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from registry.domain.errors import StoreUnavailable
from registry.store.database import Snapshot
from registry.store.migrations import NotReady

TELL_SECONDS = 0.2
"""How often the progress is told."""

_RELATIONS = """SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%' LIMIT 1"""


def is_empty(snapshot: Snapshot) -> bool:
    """Tell whether there is nothing at all in the database."""
    return snapshot.one(_RELATIONS) is None


def export_view(snapshot: Snapshot) -> str:
    """Let others read exactly what this view sees, for as long as it lasts; return the name of the view.

    https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION
    """
    snapshot.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # it waits for a program, not for us
    row = snapshot.one("SELECT pg_export_snapshot()")
    return str(row[0]) if row else ""


def dump(url: str, view: str, file: Path, progress: Callable[[int], None]) -> None:
    """Write everything in that view to a file in PostgreSQL's custom format; `progress` is told its size.

    Raises NotReady when `pg_dump` is not installed, StoreUnavailable when it fails.
    """
    _run("pg_dump", url, ("--format=custom", "--no-password", f"--snapshot={view}", f"--file={file}"), file, progress)


def load(url: str, file: Path) -> None:
    """Read a dump into an empty database, all of it or nothing. Whoever connects owns what is made.

    Raises NotReady when `pg_restore` is not installed, StoreUnavailable when it fails.
    """
    options = ("--no-owner", "--no-privileges", "--no-password", "--single-transaction", "--exit-on-error", str(file))
    _run("pg_restore", url, options)


def check(file: Path) -> None:
    """Have the contents of a dump listed. Raises NotReady when it cannot be read or `pg_restore` is not installed."""
    done = subprocess.run(  # noqa: S603 - the program is PostgreSQL's, the file our own
        [_find("pg_restore"), "--list", str(file)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NotReady([f"{file} is no dump that can be read: {done.stderr.strip()}"])


def _run(
    program: str,
    url: str,
    options: Sequence[str],
    grows: Path | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> None:
    known = conninfo_to_dict(url)
    password = known.pop("password", None)
    address = make_conninfo(**{name: str(value) for name, value in known.items() if value is not None})
    # A password on the command line could be read by everybody on this host.
    environment = {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}
    command = [_find(program), f"--dbname={address}", *options]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as running:  # noqa: S603
        try:
            while True:
                try:
                    _, complaint = running.communicate(timeout=TELL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    progress(grows.stat().st_size if grows else 0)
        except BaseException:
            running.kill()
            raise
    if running.returncode:
        error = StoreUnavailable(f"{program} failed with exit code {running.returncode}")
        error.add_note(complaint.strip())
        raise error


def _find(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        hint = (
            "Or, on a host that has them: `pg_dump --format=custom --file=FILE DATABASE`, and into an empty database: "
            "`pg_restore --no-owner --single-transaction --dbname=DATABASE FILE`; `pratique doctor` looks at it."
        )
        need = f"{program} is not installed here. Install PostgreSQL's client programs, as new as the server or newer."
        raise NotReady([need, hint])
    return found
