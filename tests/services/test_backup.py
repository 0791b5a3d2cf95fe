# SPDX-License-Identifier: Apache-2.0
"""Is a backup one whole moment of the records, and does it come back as that, or not at all?"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from registry.config import Settings
from registry.domain.errors import StoreUnavailable
from registry.services import audit, keys
from registry.services.backup import take_backup, verify_backup
from registry.services.manifest import place_of
from registry.services.restore import Restored, _swap, restore
from registry.store import copies, dumps, history
from registry.store.database import Database, open_database
from registry.store.engines import sqlite
from registry.store.migrations import NotReady, known, migrate
from registry.store.serving import ServingLock
from tests.fleet import Fleet
from tests.postgres import find_programs

SERVICE = [("service", "pratique")]


def quiet(_what: str, _done: int, _total: int) -> None:
    """Watch no progress."""


@dataclass
class Ground:
    """Records that were written, and an empty place beside them on the same engine."""

    fleet: Fleet
    settings: Settings
    folder: Path
    empty_url: str

    def back_up(self, name: str = "one") -> Path:
        take_backup(self.fleet.db, self.folder / name, now=self.fleet.clock.now, progress=quiet)
        return self.folder / name

    def restore(self, backup: Path, url: str | None = None, **how: Any) -> Restored:
        settings = how.pop("settings", self.settings)
        return restore(
            url or self.empty_url,
            settings,
            backup,
            checkpoint_file=settings.checkpoint_file,
            now=self.fleet.clock.now,
            progress=quiet,
            **how,
        )

    def see_outside(self) -> None:
        """Keep the newest head outside, as a checkpoint does."""
        head = found_head(self.fleet.db)
        assert self.settings.checkpoint_file is not None
        with self.settings.checkpoint_file.open("a") as file:
            file.write(json.dumps({"sequence": head[0], "hash": head[1]}) + "\n")


@pytest.fixture
def ground(fleet: Fleet, empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    if fleet.db.engine == "postgresql":
        monkeypatch.setenv("PATH", f"{find_programs()}:{os.environ['PATH']}")
    settings = Settings(
        database_url=fleet.db.url,
        data_dir=tmp_path,
        secret_key="5" * 64,
        signing_key="a" * 64,
        checkpoint_file=tmp_path / "checkpoints.jsonl",
    )
    keys.check_fingerprints(fleet.db, settings, fleet.clock.now)
    fleet.admit()
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return Ground(fleet, settings, folder, empty_database_url)


def found_head(db: Database) -> tuple[int, str]:
    with db.read() as snapshot:
        found = history.find_head(snapshot)
    assert found is not None
    return found.sequence, found.hash


def opened(url: str) -> Iterator[Database]:
    db = open_database(url)
    yield db
    db.close_all()


def test_a_backup_is_whole_and_says_what_it_holds(ground: Ground) -> None:
    backup = ground.back_up()

    manifest = json.loads(place_of(backup).read_text())

    assert verify_backup(backup, quiet).to_json() == manifest
    assert (manifest["head"]["sequence"], manifest["head"]["hash"]) == found_head(ground.fleet.db)
    assert (manifest["engine"], manifest["schema"], manifest["taken_at"]) == (
        ground.fleet.db.engine,
        known()[-1],
        "2026-11-29T12:00:30.000000Z",
    )
    assert manifest["keys"] == keys.list_fingerprints(ground.settings)
    assert sorted(path.name for path in ground.folder.iterdir()) == ["one", "one.json"]
    assert {path.stat().st_mode & 0o777 for path in ground.folder.iterdir()} == {0o600}
    assert not any(secret.encode() in backup.read_bytes() for secret in ("5" * 64, "a" * 64))


def test_it_comes_back_as_it_was(ground: Ground) -> None:
    hold = ground.fleet.hold({"identifier": {"kind": "gpu", "type": "serial", "value": "1650000000000"}})
    sequence, hash_ = found_head(ground.fleet.db)
    ground.see_outside()
    backup = ground.back_up()

    done = ground.restore(backup)

    (db,) = opened(ground.empty_url)
    there = Fleet(db, ground.fleet.clock)
    assert (done.alarms, done.aside, done.is_compared) == ([], None, True)
    assert there.codes() == ground.fleet.codes()
    assert [one["id"] for one in there.open_holds()] == [hold[0]["quarantine"]["id"]]
    assert audit.verify(db)["ok"]
    with db.read() as snapshot:
        (event,) = history.page_events(snapshot, subjects=SERVICE)
    assert (event.sequence, event.type) == (sequence + 1, "service.restored")
    assert event.data == {"taken_at": "2026-11-29T12:00:30.000000Z", "sequence": sequence, "hash": hash_}
    there.release(hold[0]["quarantine"]["id"])
    db.close_all()


def test_a_loss_that_shows_outside_is_noted_before_anybody_is_admitted(ground: Ground) -> None:
    backup = ground.back_up()
    ends = found_head(ground.fleet.db)[0]
    ground.fleet.hold({"node": "node-a"})
    ground.see_outside()

    done = ground.restore(backup)

    (db,) = opened(ground.empty_url)
    assert [(one["from"], one["to"]) for one in done.alarms] == [(ends + 1, found_head(ground.fleet.db)[0])]
    assert Fleet(db, ground.fleet.clock).codes() == ["service_safe_mode"]
    db.close_all()


def test_nothing_known_outside_is_told(ground: Ground) -> None:
    done = ground.restore(ground.back_up())

    assert (done.alarms, done.is_compared) == ([], False)


def test_a_backup_overwrites_nothing(ground: Ground) -> None:
    (ground.folder / "one").write_text("mine")

    with pytest.raises(NotReady, match="never overwrites"):
        ground.back_up()
    with pytest.raises(NotReady, match="no folder"):
        ground.back_up("none/one")

    assert (ground.folder / "one").read_text() == "mine"
    assert not place_of(ground.folder / "one").exists()


def flip(backup: Path) -> None:
    content = bytearray(backup.read_bytes())
    content[len(content) // 2] ^= 1
    backup.write_bytes(content)


def cut(backup: Path) -> None:
    os.truncate(backup, backup.stat().st_size - 100)


def lose_manifest(backup: Path) -> None:
    place_of(backup).unlink()


def spoil_manifest(backup: Path) -> None:
    place_of(backup).write_text("{}")


def lie_about_the_head(backup: Path) -> None:
    change_manifest(backup, lambda found: found["head"].update(sequence=1))


def be_newer(backup: Path) -> None:
    change_manifest(backup, lambda found: found["migrations"].append("9999_from_the_future"))


def be_foreign(backup: Path) -> None:
    other = {"sqlite": "postgresql", "postgresql": "sqlite"}
    change_manifest(backup, lambda found: found.update(engine=other[found["engine"]]))


def change_manifest(backup: Path, change: Callable[[dict[str, Any]], object]) -> None:
    found = json.loads(place_of(backup).read_text())
    change(found)
    place_of(backup).write_text(json.dumps(found))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (flip, "SHA-256"),
        (cut, "SHA-256"),
        (lose_manifest, "is missing"),
        (spoil_manifest, "no manifest"),
        (be_newer, "newer"),
        (be_foreign, "database address"),
    ],
)
def test_what_is_not_whole_or_does_not_fit_is_not_put_back(
    ground: Ground, spoil: Callable[[Path], None], why: str
) -> None:
    backup = ground.back_up()
    spoil(backup)

    with pytest.raises(NotReady, match=why):
        ground.restore(backup)

    assert is_empty(ground.empty_url)


def is_empty(url: str) -> bool:
    db = open_database(url)
    if db.path is not None:
        return not [
            one
            for one in db.path.parent.iterdir()
            if one.name.startswith((db.path.name, ".")) and not one.name.endswith(".serve.lock")
        ]
    with db.read() as snapshot:
        found = dumps.is_empty(snapshot)
    db.close_all()
    return found


def test_another_key_than_the_backups_is_refused_before_anything_is_touched(ground: Ground) -> None:
    backup = ground.back_up()

    with pytest.raises(NotReady, match="secret key"):
        ground.restore(backup, settings=replace(ground.settings, secret_key="6" * 64))

    assert is_empty(ground.empty_url)


def test_a_database_that_is_there_stays(ground: Ground) -> None:
    backup = ground.back_up()
    before = found_head(ground.fleet.db)

    with pytest.raises(NotReady):
        ground.restore(backup, url=ground.fleet.db.url)

    assert found_head(ground.fleet.db) == before


# --- PostgreSQL only -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_without_pg_dump_what_to_run_is_told(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")

    with pytest.raises(NotReady, match="pg_dump --format=custom"):
        ground.back_up()

    assert list(ground.folder.iterdir()) == []


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_dump_is_of_the_moment_that_its_manifest_names(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody writes between the two looks."""
    real, other = dumps.dump, open_database(ground.fleet.db.url)

    def late(*given: Any) -> None:
        Fleet(other, ground.fleet.clock).hold({"node": "node-a"})
        other.close_all()
        real(*given)

    monkeypatch.setattr(dumps, "dump", late)
    before = found_head(ground.fleet.db)
    backup = ground.back_up()

    done = ground.restore(backup)

    assert (done.manifest.contents.head.sequence, done.manifest.contents.head.hash) == before
    assert found_head(ground.fleet.db)[0] > before[0]


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_server_that_fails_is_told_and_leaves_nothing(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumps, "export_view", lambda _: "no-such-view")

    with pytest.raises(StoreUnavailable, match="pg_dump failed"):
        ground.back_up()

    assert list(ground.folder.iterdir()) == []


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_dump_that_cannot_be_read_to_its_end_leaves_the_database_empty(ground: Ground) -> None:
    backup = ground.back_up()
    os.truncate(backup, backup.stat().st_size - 300)
    content = backup.read_bytes()
    change_manifest(backup, lambda found: found.update(sha256=hashlib.sha256(content).hexdigest(), bytes=len(content)))

    with pytest.raises((NotReady, StoreUnavailable)):
        ground.restore(backup)

    assert is_empty(ground.empty_url)


# --- SQLite only -----------------------------------------------------------------------------------------------------

only_sqlite = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


@only_sqlite
def test_a_backup_of_a_database_that_is_written_all_the_time_ends_and_holds(ground: Ground) -> None:
    over = threading.Event()
    written: list[int] = []

    def write() -> None:
        while not over.is_set():
            targets = {"identifier": {"kind": "gpu", "type": "serial", "value": f"17{len(written):011d}"}}
            ground.fleet.hold(targets)
            written.append(1)
        ground.fleet.db.close()

    writer = threading.Thread(target=write)
    writer.start()
    heads = []
    try:
        for number in range(5):
            ground.back_up(f"backup-{number}")
            heads.append(verify_backup(ground.folder / f"backup-{number}", quiet).contents.head.sequence)
    finally:
        over.set()
        writer.join()

    assert heads == sorted(set(heads))
    assert len(written) > 5


@only_sqlite
def test_a_copy_is_not_begun_anew_by_each_commit_of_others(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many steps, each followed by a commit of another connection, none is done twice."""
    monkeypatch.setattr(copies, "PAGES_AT_ONCE", 5)
    path = ground.fleet.db.path
    assert path is not None
    steps: list[int] = []

    def commit(done: int, _total: int) -> None:
        steps.append(done)
        ground.fleet.hold({"identifier": {"kind": "gpu", "type": "serial", "value": f"17{len(steps):011d}"}})

    copies.copy_database(path, ground.folder / "copy", commit)

    assert len(steps) > 10
    assert steps == sorted(set(steps))


@only_sqlite
@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("DROP TRIGGER event_no_delete", "event_no_delete is missing"),
        ("UPDATE chain_head SET sequence = sequence - 1", "does not end"),
        ("UPDATE chain_head SET hash = 'x'", "does not end"),
    ],
)
def test_records_that_are_not_well_are_not_backed_up_as_if_they_were(ground: Ground, statement: str, why: str) -> None:
    connection = sqlite.connect(str(ground.fleet.db.path), isolation_level=None)
    connection.execute(statement)
    connection.close()

    with pytest.raises(NotReady, match=why):
        ground.back_up()

    assert list(ground.folder.iterdir()) == []


@only_sqlite
def test_verifying_looks_through_the_whole_history(ground: Ground) -> None:
    backup = ground.back_up()
    connection = sqlite.connect(str(backup), isolation_level=None)
    (guard,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'event_no_update'").fetchone()
    connection.execute("DROP TRIGGER event_no_update")
    connection.execute("UPDATE event SET body = replace(body, 'node-a', 'node-b') WHERE sequence = 2")
    connection.execute(guard)
    connection.close()
    content = backup.read_bytes()
    change_manifest(backup, lambda found: found.update(sha256=hashlib.sha256(content).hexdigest(), bytes=len(content)))

    with pytest.raises(NotReady, match="broken at entry 2"):
        verify_backup(backup, quiet)


@only_sqlite
def test_a_manifest_that_lies_is_found_out(ground: Ground) -> None:
    backup = ground.back_up()
    lie_about_the_head(backup)

    with pytest.raises(NotReady, match="head are not those"):
        verify_backup(backup, quiet)
    with pytest.raises(NotReady, match="head are not those"):
        ground.restore(backup)

    assert is_empty(ground.empty_url)


@only_sqlite
def test_a_draft_whose_maker_was_killed_is_cleared_away_and_a_living_one_is_not(ground: Ground) -> None:
    dead, living = ground.folder / ".one.draft-dead", ground.folder / ".one.draft-living"
    dead.touch()
    with living.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ground.back_up()

    assert sorted(path.name for path in ground.folder.iterdir()) == [living.name, "one", "one.json"]


@only_sqlite
def test_what_is_replaced_is_kept_aside_whole_and_tells_what_is_lost(ground: Ground) -> None:
    """Also what only stands in the write-ahead log of a database that a server left."""
    backup = ground.back_up()
    url, path = ground.fleet.db.url, ground.fleet.db.path
    assert path is not None
    ground.fleet.hold({"node": "node-a"})
    ends = found_head(ground.fleet.db)
    log = path.with_name(f"{path.name}-wal").read_bytes()
    main = path.read_bytes()
    ground.fleet.db.close_all()
    path.write_bytes(main)
    path.with_name(f"{path.name}-wal").write_bytes(log)

    done = ground.restore(backup, url=url, is_replacing=True)

    (old,) = opened(f"sqlite:///{done.aside}")
    (new,) = opened(url)
    assert found_head(old) == ends
    assert [one["to"] for one in done.alarms] == [ends[0]]
    assert Fleet(new, ground.fleet.clock).codes() == ["service_safe_mode"]
    old.close_all()
    new.close_all()


@only_sqlite
def test_a_damaged_database_can_be_replaced(ground: Ground) -> None:
    backup = ground.back_up()
    url, path = ground.fleet.db.url, ground.fleet.db.path
    assert path is not None
    ground.fleet.db.close_all()
    path.write_bytes(b"no database at all" * 1000)

    with pytest.raises(StoreUnavailable):
        ground.restore(backup, url=url)
    done = ground.restore(backup, url=url, is_replacing=True)

    (db,) = opened(url)
    assert Fleet(db, ground.fleet.clock).decide().admitted
    db.close_all()
    assert done.aside is not None
    assert done.aside.read_bytes().startswith(b"no database at all")


@only_sqlite
def test_a_log_that_cannot_be_merged_is_kept_beside_its_database(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "merge_log", lambda _: False)
    old, made = ground.folder / "old", ground.folder / "made"
    for file in (old, made):
        file.write_text(file.name)
    (ground.folder / "old-wal").write_text("its log")

    aside = _swap(made, old, ground.fleet.clock.now)

    assert aside is not None
    assert (old.read_text(), aside.read_text()) == ("made", "old")
    assert aside.with_name(f"{aside.name}-wal").read_text() == "its log"
    assert not (ground.folder / "old-wal").exists()


@only_sqlite
def test_a_log_without_its_database_is_not_taken_for_the_new_ones(ground: Ground) -> None:
    backup = ground.back_up()
    place = Path(ground.empty_url.removeprefix("sqlite:///"))
    place.with_name(f"{place.name}-wal").write_bytes(b"left behind")

    ground.restore(backup)

    (db,) = opened(ground.empty_url)
    assert Fleet(db, ground.fleet.clock).decide().admitted
    db.close_all()


@only_sqlite
def test_no_database_is_put_under_a_running_server(ground: Ground) -> None:
    backup = ground.back_up()
    place = Path(ground.empty_url.removeprefix("sqlite:///"))
    serving = ServingLock(place)
    assert serving.take(is_shared=True)

    with pytest.raises(NotReady, match="A server runs"):
        ground.restore(backup)
    serving.let_go()
    ground.restore(backup)


@only_sqlite
def test_what_a_killed_restore_left_is_cleared_away(ground: Ground) -> None:
    backup = ground.back_up()
    place = Path(ground.empty_url.removeprefix("sqlite:///"))
    left = place.parent / f".{place.name}.restore-dead"
    left.mkdir()
    (left / place.name).touch()

    ground.restore(backup)

    assert not left.exists()


def test_what_was_restored_needs_no_migration(ground: Ground) -> None:
    ground.restore(ground.back_up())

    assert migrate(ground.empty_url) == []
