# SPDX-License-Identifier: Apache-2.0
"""Killed at any moment, does a backup or a restore leave something half? It is killed at each of its steps in turn."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from registry.config import Settings
from registry.services import audit, keys
from registry.services.backup import take_backup, verify_backup
from registry.services.restore import restore
from registry.store import copies, history
from registry.store.database import Database, open_database
from tests.clock import NOON
from tests.fleet import Fleet

only_sqlite = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
pytestmark = [only_sqlite, pytest.mark.slow]


def quiet(_what: str, _done: int, _total: int) -> None:
    """Watch no progress."""


def killed_at(step: int, work: Callable[[Callable[..., None]], object]) -> bool:
    """Do work in a process of its own that is killed before its so manieth step; False when it ended before that.

    A step is a piece of progress, a wait for the disk, or a change of a name.
    """
    child = os.fork()
    if child == 0:
        steps = count(1)

        def then(*_: object) -> None:
            if next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)

        def counted(real: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *given, **named: (then(), real(*given, **named))[1]

        code = 1
        try:
            for owner, name in ((os, "fsync"), (os, "replace"), (os, "link"), (Path, "replace"), (Path, "hardlink_to")):
                setattr(owner, name, counted(getattr(owner, name)))
            work(then)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.waitstatus_to_exitcode(status) == 0
    return False


def head_at(path: Path) -> int:
    """Look through a database; the sequence of its newest entry."""
    db = open_database(f"sqlite:///{path}")
    assert audit.verify(db)["ok"]
    with db.read() as snapshot:
        found = history.find_head(snapshot)
    db.close_all()
    assert found is not None
    return found.sequence


@pytest.fixture
def settings(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(copies, "PAGES_AT_ONCE", 40)
    made = Settings(database_url=fleet.db.url, data_dir=tmp_path, secret_key="5" * 64, signing_key="a" * 64)
    keys.check_fingerprints(fleet.db, made, NOON)
    fleet.admit()
    return made


def test_a_backup_of_that_name_is_whole_or_there_is_none(fleet: Fleet, settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    found = []
    for step in count(1):
        backup = folder / "one"

        def work(then: Callable[..., None], backup: Path = backup) -> None:
            take_backup(open_database(fleet.db.url), backup, now=NOON, progress=then)

        was_killed = killed_at(step, work)
        found.append(backup.exists())
        if backup.exists():
            verify_backup(backup, quiet)
            backup.unlink()
        if not was_killed:
            break

    assert step >= 8
    assert found[0] is False
    assert found[-2:] == [True, True]  # killed when all was done but the last wait for the disk
    assert sorted(path.name for path in folder.iterdir()) == ["one.json"]


@pytest.mark.parametrize("is_there", [True, False], ids=["replacing", "absent"])
def test_the_old_database_is_there_or_the_new_one_and_always_whole(
    fleet: Fleet, settings: Settings, tmp_path: Path, is_there: bool
) -> None:
    backup = tmp_path / "backup"
    take_backup(fleet.db, backup, now=NOON, progress=quiet)
    restored = verify_backup(backup, quiet).contents.head.sequence
    for node in ("node-a", "node-b", "node-c"):
        fleet.hold({"node": node})
    old = fleet_head(fleet.db) if is_there else 0
    new = restored + (2 if is_there else 1)  # that it was restored, and that something is lost
    fleet.db.close_all()
    assert fleet.db.path is not None
    ends = []
    for step in count(1):
        place = tmp_path / f"place-{step}" / "registry.db"
        place.parent.mkdir()
        if is_there:
            shutil.copy(fleet.db.path, place)

        def work(then: Callable[..., None], place: Path = place) -> None:
            restore(
                f"sqlite:///{place}",
                settings,
                backup,
                checkpoint_file=None,
                is_replacing=is_there,
                now=NOON,
                progress=then,
            )

        was_killed = killed_at(step, work)
        ends.append(head_at(place) if place.exists() else 0)
        if not was_killed:
            break
        if ends[-1] != new:  # what was left behind hinders nobody
            work(quiet)
            assert head_at(place) == new

    assert step >= 8
    assert ends[0] == old
    assert ends == sorted(ends, key=lambda one: one == new)
    assert set(ends) == {old, new}


def fleet_head(db: Database) -> int:
    with db.read() as snapshot:
        return snapshot.sequence()
