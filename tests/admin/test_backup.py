# SPDX-License-Identifier: Apache-2.0
"""Do the commands that keep the records elsewhere, and put them back, say what they did and end as they should?"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from registry.admin.ground import open_ready
from registry.admin.progress import phases
from registry.admin.serve import look_at_records
from registry.config import Settings
from registry.store.engines import SqliteGate
from tests.admin.conftest import Run
from tests.admin.test_doctor import examine


@pytest.fixture
def backup(migrated: Run, tmp_path: Path) -> Path:
    """A backup that lacks what happened afterwards."""
    assert migrated("token", "create", "--role", "operator", "--name", "alice").exit_code == 0
    path = tmp_path / "backup.db"
    assert migrated("backup", str(path)).exit_code == 0
    assert migrated("token", "create", "--role", "operator", "--name", "bob").exit_code == 0
    return path


def see_outside(folder: Path, sequence: int) -> None:
    """Keep a head outside that is in no history of ours."""
    with (folder / "checkpoints.jsonl").open("a") as file:
        file.write(json.dumps({"sequence": sequence, "hash": "f" * 64}) + "\n")


def test_a_backup_is_made_and_verified(migrated: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "backup.db")

    made = migrated("backup", path)
    again = migrated("backup", path)
    verified = migrated("backup", "--verify", path, "--output", "json")

    assert (made.exit_code, again.exit_code, verified.exit_code) == (0, 1, 0)
    assert "ends at entry 0" in made.stdout
    assert "never overwrites" in again.stderr
    assert json.loads(verified.stdout)["engine"] == "sqlite"


def test_a_spoiled_backup_is_told(migrated: Run, backup: Path) -> None:
    with backup.open("ab") as file:
        file.write(b"x")

    found = migrated("backup", "--verify", str(backup))

    assert found.exit_code == 1
    assert "SHA-256" in found.stderr


def test_the_keys_come_back_first(run: Run, backup: Path, tmp_path: Path) -> None:
    refused = run("restore", str(backup), DATA_DIR=str(tmp_path / "new"))

    assert refused.exit_code == 1
    assert "key" in refused.stderr
    assert not (tmp_path / "new" / "pratique.db").exists()


def test_records_come_back_on_another_host(run: Run, backup: Path, folder: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.mkdir()
    for key in ("pratique.pepper", "pratique.signing"):
        (new / key).write_bytes((folder / key).read_bytes())

    done = run("restore", str(backup), DATA_DIR=str(new))
    listed = run("token", "list", DATA_DIR=str(new)).stdout

    assert done.exit_code == 0
    assert "whether entries are missing cannot be said" in done.stdout
    assert "name=alice" in listed
    assert "name=bob" not in listed


def test_a_database_is_replaced_only_when_somebody_agrees(run: Run, backup: Path, folder: Path) -> None:
    refused = run("restore", str(backup))
    unasked = run("restore", "--replace", str(backup))
    done = run("restore", "--replace", "--yes", str(backup), "--output", "json")

    told = json.loads(done.stdout)
    assert (refused.exit_code, unasked.exit_code, done.exit_code) == (1, 2, 0)
    assert "--replace" in refused.stderr
    assert told["safe_mode"] is True
    assert told["lost"] == [{"cause": "ends_early", "from": 2, "to": 2, "since": told["lost"][0]["since"]}]
    assert Path(told["aside"]).exists()
    assert "name=bob" in run("token", "list", DATABASE_URL=f"sqlite:///{told['aside']}").stdout


def test_a_person_is_asked_before_a_database_is_replaced(
    run: Run, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.admin.restore.is_asked_by_a_person", lambda: True)
    monkeypatch.setattr("click.prompt", lambda *_, **__: "no")

    assert run("restore", "--replace", str(backup)).exit_code == 2

    monkeypatch.setattr("click.prompt", lambda *_, **__: "replace")
    done = run("restore", "--replace", str(backup))

    assert done.exit_code == 0
    assert "admit nobody" in done.stdout


def test_the_doctor_sees_what_was_lost_before_and_after_it_was_noted_in_the_database(
    run: Run, backup: Path, folder: Path
) -> None:
    assert examine(run)[1]["safe_mode"]["state"] == "ok"
    see_outside(folder, 9)

    unnoted = examine(run)[1]["safe_mode"]
    run("restore", "--replace", "--yes", str(backup))
    (folder / "checkpoints.jsonl").unlink()
    noted = examine(run)[1]["safe_mode"]

    assert (unnoted["state"], noted["state"]) == ("warn", "warn")
    assert "Entries 3 to 9" in unnoted["found"]
    assert "entries 2 to 9" in noted["found"]


def test_checkpoints_that_cannot_be_read_are_told(migrated: Run, folder: Path, tmp_path: Path) -> None:
    (folder / "checkpoints.jsonl").write_text("nothing that can be read\n")

    assert examine(migrated)[1]["safe_mode"]["state"] == "fail"
    assert migrated("restore", str(tmp_path / "none")).exit_code == 1


def test_the_doctor_names_a_sqlite_that_is_not_safe(migrated: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.admin.findings.sqlite_gate", lambda: SqliteGate("3.40.1", False, "delete"))

    assert examine(migrated)[1]["database"]["state"] == "warn"


@pytest.mark.parametrize(("is_safe", "level"), [(True, "INFO"), (False, "WARNING")])
def test_a_server_names_its_sqlite_in_the_log(
    migrated: Run,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_safe: bool,
    level: str,
) -> None:
    monkeypatch.setattr("registry.admin.serve.sqlite_gate", lambda: SqliteGate("3.40.1", is_safe, "delete"))
    settings = Settings(database_url=f"sqlite:///{folder / 'pratique.db'}", data_dir=folder)
    caplog.set_level("INFO")

    with open_ready(settings) as database:
        look_at_records(database, settings)

    assert [one.levelname for one in caplog.records if "SQLite 3.40.1" in one.message] == [level]


def test_progress_is_shown_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with phases() as tell:
        tell("copying", 1, 2)
    assert capsys.readouterr().err == ""

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with phases() as tell:
        tell("copying", 1, 2)
        tell("checking", 0, 0)
    assert "checking" in capsys.readouterr().err


def test_roles_are_for_postgresql(run: Run) -> None:
    refused = run("migrate", "--grant-to", "pratique")

    assert refused.exit_code == 2
    assert "SQLite knows no roles" in refused.stderr
