# SPDX-License-Identifier: Apache-2.0
"""Does the doctor say when no checkpoint is signed, when none gets out, and when one outside is of another history?"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from registry.admin import outside
from registry.admin.findings import Finding, State
from registry.config import Settings
from registry.services import sinks
from registry.services.sending import NotSent
from registry.store.database import Database, open_database
from tests.admin.conftest import Run
from tests.services.signed import write_many

URL = "https://audit.example/in"


@pytest.fixture
def lived_in(migrated: Run) -> Run:
    """A history with one checkpoint, which is in the file as well."""
    migrated("token", "create", "--role", "operator", "--name", "alice")
    assert migrated("audit", "checkpoint").exit_code == 0
    return migrated


def look(folder: Path, *, now: datetime | None = None, **settings: str) -> dict[str, Finding]:
    given = Settings.from_env(
        {f"PRATIQUE_{name}": value for name, value in {"DATA_DIR": str(folder), **settings}.items()}
    )
    database = open_database(given.database_url)
    with database.read() as snapshot:
        found = list(outside.look_at_checkpoints(given, snapshot, now or datetime.now(UTC)))
    database.close_all()
    return {one.name: one for one in found}


def opened(folder: Path) -> Database:
    return open_database(f"sqlite:///{folder / 'pratique.db'}")


def test_all_is_well(lived_in: Run, folder: Path) -> None:
    found = look(folder)

    assert {name: one.state for name, one in found.items()} == {
        "checkpoint": State.OK, "checkpoint_file": State.OK, "checkpoint_url": State.SKIPPED,
    }  # fmt: skip
    assert "goes up to entry 1" in found["checkpoint_file"].found


def test_entries_that_wait_too_long_are_named(lived_in: Run, folder: Path) -> None:
    database, now = opened(folder), datetime.now(UTC)
    write_many(database, now, 3)
    database.close_all()

    assert look(folder, now=now + timedelta(seconds=600))["checkpoint"].state is State.OK
    late = look(folder, now=now + timedelta(seconds=601))["checkpoint"]

    assert late.state is State.WARN
    assert "3 entries wait for one, the first for 0:10:01" in late.found


def test_a_file_without_the_newest_is_named(lived_in: Run, folder: Path) -> None:
    lived_in("audit", "checkpoint", CHECKPOINT_FILE="off")

    assert look(folder, CHECKPOINT_FILE="off")["checkpoint_file"].state is State.SKIPPED
    assert look(folder)["checkpoint_file"].state is State.WARN
    assert "lacks newer ones" in look(folder)["checkpoint_file"].found
    assert "has none yet, and lacks" in look(folder, CHECKPOINT_FILE=str(folder / "other"))["checkpoint_file"].found


def test_a_file_of_another_history_is_named(lived_in: Run, folder: Path) -> None:
    file = folder / "checkpoints.jsonl"
    file.write_text(json.dumps({**json.loads(file.read_text()), "sequence": 77}) + "\n")

    found = look(folder)["checkpoint_file"]

    assert found.state is State.WARN
    assert "entry 77 of another history" in found.found
    file.write_text("nonsense\n")
    assert look(folder)["checkpoint_file"].state is State.FAIL


def test_an_address_that_refuses_is_named(lived_in: Run, folder: Path) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise NotSent("audit.example answered 500")

    assert look(folder, CHECKPOINT_URL=URL)["checkpoint_url"].found == "1 wait to be sent"
    database, now = opened(folder), datetime.now(UTC)
    with pytest.raises(sinks.SinkFailed):
        sinks.send_pending(database, URL, (), now=now, post=refuse)
    found = look(folder, CHECKPOINT_URL=URL)["checkpoint_url"]
    assert (found.state, found.found) == (State.WARN, "1 wait to be sent: audit.example answered 500")

    sinks.send_pending(database, URL, (), now=now + timedelta(minutes=1), post=lambda *_, **__: None)
    database.close_all()
    found = look(folder, CHECKPOINT_URL=URL)["checkpoint_url"]
    assert (found.state, found.found) == (State.OK, "it has all of them")
