# SPDX-License-Identifier: Apache-2.0
"""Do the commands of the audit sign, verify and change keys, and say in a sentence what is wrong?"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from registry.services.signing import Signer, is_signed
from registry.store.engines import sqlite
from tests.admin.conftest import Run

MEMBERS = ["sequence", "hash", "root", "signed_at", "key", "signature"]


@pytest.fixture
def lived_in(migrated: Run) -> Run:
    """A history of three entries."""
    for name in ("alice", "bob", "carol"):
        assert migrated("token", "create", "--role", "operator", "--name", name).exit_code == 0
    return migrated


def rewrite(folder: Path, *statements: str) -> None:
    """Change the history as somebody does who has the file, and put the guards back."""
    with sqlite.connect(folder / "pratique.db") as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for _, sql in triggers:
            connection.execute(sql)
    connection.close()


def test_a_checkpoint_is_printed_as_one_document_and_kept_in_the_file(lived_in: Run, folder: Path) -> None:
    printed = lived_in("audit", "checkpoint")

    document = json.loads(printed.stdout)
    assert list(document) == MEMBERS
    assert document["sequence"] == 3
    assert document["key"] == lived_in("audit", "key").stdout.strip()
    signed = {name: value for name, value in sorted(document.items()) if name != "signature"}
    assert is_signed(document["key"], document["signature"], json.dumps(signed, separators=(",", ":")))
    assert (folder / "checkpoints.jsonl").read_text() == printed.stdout


def test_the_history_is_held_against_a_checkpoint(lived_in: Run, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(lived_in("audit", "checkpoint").stdout)
    lived_in("token", "create", "--role", "operator", "--name", "dave")

    told = lived_in("audit", "verify", "--checkpoint", str(kept))

    assert told.exit_code == 0
    assert "The chain holds: 5 entries" in told.stdout
    assert "2 checkpoints agree, 1 of them kept elsewhere." in told.stdout


def test_an_end_that_was_cut_off_is_found_with_a_checkpoint(lived_in: Run, folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(lived_in("audit", "checkpoint").stdout)
    rewrite(
        folder,
        "DELETE FROM event_subject WHERE event > 2",
        "DELETE FROM event WHERE sequence > 2",
        "UPDATE chain_head SET sequence = 2, hash = (SELECT hash FROM event WHERE sequence = 2)",
    )

    assert lived_in("audit", "verify").exit_code == 0
    told = lived_in("audit", "verify", "--checkpoint", str(kept), "--output", "json")

    assert told.exit_code == 1
    found = json.loads(told.stdout)
    assert (found["ok"], found["bad"]) == (False, 3)
    assert "the checkpoint of entry 3" in found["reason"]


def test_a_checkpoint_that_another_key_signed_is_refused_in_a_sentence(lived_in: Run, tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(lived_in("audit", "checkpoint").stdout)

    told = lived_in("audit", "verify", "--checkpoint", str(kept), "--key", "ab" * 32)

    assert told.exit_code == 1
    assert re.match(r"Error: the checkpoint of entry 3 is signed by key \w+, which nothing vouches for\n", told.stderr)


def test_lines_that_cannot_be_read_are_counted(lived_in: Run, folder: Path) -> None:
    lived_in("audit", "checkpoint")
    with (folder / "checkpoints.jsonl").open("a") as file:
        file.write('{"sequence": 9, "hash"\n')

    told = lived_in("audit", "verify", "--checkpoint", str(folder / "checkpoints.jsonl"))

    assert told.exit_code == 0
    assert told.stderr.startswith("1 lines of ")


def test_a_key_in_the_data_folder_is_replaced(lived_in: Run, folder: Path) -> None:
    before = lived_in("audit", "key").stdout.strip()
    lived_in("audit", "checkpoint")

    done = json.loads(lived_in("audit", "rotate-key", "--output", "json").stdout)

    after = lived_in("audit", "key").stdout.strip()
    assert (done["old_key"], done["new_key"], done["sequence"]) == (before, after, 4)
    assert before != after
    lived_in("audit", "checkpoint")
    lines = [json.loads(line) for line in (folder / "checkpoints.jsonl").read_text().splitlines()]
    assert [one.get("key") for one in lines] == [before, None, after]
    assert lines[1] == done
    for key in (before, after):
        told = lived_in("audit", "verify", "--checkpoint", str(folder / "checkpoints.jsonl"), "--key", key)
        assert told.exit_code == 0, told.output


def test_a_key_that_is_given_by_a_setting_needs_the_new_one(run: Run, tmp_path: Path) -> None:
    given = {"SIGNING_KEY": "ab" * 32}
    assert run("migrate", **given).exit_code == 0
    new = tmp_path / "signing.new"
    new.write_text("cd" * 32 + "\n")

    refused = run("audit", "rotate-key", **given)
    done = run("audit", "rotate-key", "--new-key-file", str(new), **given)

    assert (refused.exit_code, done.exit_code) == (2, 0)
    assert "--new-key-file" in refused.stderr
    assert f"{Signer(bytes.fromhex('cd' * 32)).key} signs" in done.stdout
    stale = run("audit", "checkpoint", **given)
    assert stale.exit_code == 1
    assert "not the one this database was made with" in stale.stderr
    assert run("audit", "checkpoint", SIGNING_KEY="cd" * 32).exit_code == 0


def test_a_key_is_not_handed_to_itself(run: Run, tmp_path: Path) -> None:
    given = {"SIGNING_KEY": "ab" * 32}
    run("migrate", **given)
    new = tmp_path / "signing.new"
    new.write_text("ab" * 32)

    told = run("audit", "rotate-key", "--new-key-file", str(new), **given)

    assert told.exit_code == 1
    assert "the new key is the old one" in told.stderr


def test_a_sink_that_does_not_take_it_is_a_warning(lived_in: Run) -> None:
    told = lived_in("audit", "checkpoint", CHECKPOINT_URL="http://127.0.0.1:9/in")

    assert told.exit_code == 0
    assert "warning: 127.0.0.1 is at 127.0.0.1, which is not public" in told.stderr
    assert list(json.loads(told.stdout)) == MEMBERS
