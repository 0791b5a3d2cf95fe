# SPDX-License-Identifier: Apache-2.0
"""Does a person get a device's evidence with one command, and never half of it?"""

from __future__ import annotations

import zipfile
from pathlib import Path

from registry.admin.demo_hardware import make_machine
from registry.cli.exits import Exit
from tests.cli.conftest import Pratique
from tests.cli.scripted import Answer, scripted

MACHINE = make_machine("node-a", 1)
SERIAL = MACHINE.gpus[3].serial


def test_the_bundle_is_saved_and_replaces_an_older_one(pratique: Pratique, tmp_path: Path) -> None:
    pratique.report(MACHINE)
    out = tmp_path / "rma.zip"
    out.write_text("older")

    told = pratique("device", "bundle", SERIAL, "--out", str(out))

    assert told.exit_code == 0, told.output
    assert told.stdout == f"{out}: {out.stat().st_size} bytes\n"
    assert "history.ndjson" in zipfile.ZipFile(out).namelist()
    assert sorted(tmp_path.glob(".*")) == []
    assert pratique.json("device", "bundle", SERIAL, "--out", str(out))["file"] == str(out)


def test_what_cannot_be_had_leaves_the_file_that_was_there(pratique: Pratique, tmp_path: Path) -> None:
    out = tmp_path / "rma.zip"
    out.write_text("older")

    unknown = pratique("device", "bundle", "nobody", "--out", str(out))
    with scripted(Answer(body=b"PK\x03\x04 and no more", length=100)) as server:
        cut = pratique("device", "bundle", SERIAL, "--out", str(out), "--url", server.url)
    with scripted(Answer(body=b"<html>a proxy</html>")) as server:
        other = pratique("device", "bundle", SERIAL, "--out", str(out), "--url", server.url)
    nowhere = pratique("device", "bundle", SERIAL, "--out", str(tmp_path / "none" / "rma.zip"))

    assert "not_found" in unknown.stderr
    assert (cut.exit_code, other.exit_code) == (Exit.NO_DECISION, Exit.NO_DECISION)
    assert "broke off" in cut.stderr
    assert "no zip file" in other.stderr
    assert "cannot be written" in nowhere.stderr
    assert out.read_text() == "older"
    assert sorted(tmp_path.glob(".*")) == []


def test_a_note_is_written(pratique: Pratique) -> None:
    pratique.report(MACHINE)

    told = pratique("device", "note", SERIAL, "reseated on the bench")

    assert told.exit_code == 0, told.output
    assert pratique.json("device", "show", SERIAL)["notes"][0]["text"] == "reseated on the bench"
