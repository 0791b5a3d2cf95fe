# SPDX-License-Identifier: Apache-2.0
"""Does the verifier that stands alone agree with ours: on real exports, on forged ones, and on keys?"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from random import Random

import pytest

from registry.services import rotation
from registry.services.export import export_events
from registry.services.history import device_history
from registry.services.pages import PageRequest
from registry.services.signing import Signer
from registry.services.sinks import append_to_file, write_line
from registry.store.database import Database
from tests.fleet import Fleet, serial
from tests.forgery import FORGERIES, forge
from tests.project import ROOT
from tests.services.signed import KEY, make_settings, sign, write_many

PROGRAM = ROOT / "deploy" / "verify_history.py"
EVERYTHING = PageRequest(1000, None, newest_first=False)
Verifier = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


@pytest.fixture
def verifier(tmp_path: Path) -> Verifier:
    """Run the program as somebody does who has Python and nothing else."""

    def run(export: Path, *, key: str = KEY, kept: Path | None = None) -> subprocess.CompletedProcess[str]:
        given = ["--key", key, "--checkpoints", str(kept or tmp_path / "kept.jsonl"), str(export)]
        return subprocess.run(
            [sys.executable, "-I", "-S", PROGRAM, *given], text=True, capture_output=True, check=False
        )

    return run


@pytest.fixture
def signed_history(db: Database, now: datetime, tmp_path: Path) -> Database:
    """300 entries with a checkpoint, 40 with another key and another checkpoint, and a few that none covers."""
    settings = make_settings(tmp_path)
    write_many(db, now, 300)
    sign(db, now, settings)
    rotation.rotate(db, settings, b"\x07" * 32, now=now)
    write_many(db, now, 40)
    sign(db, now, make_settings(tmp_path, signing_key="07" * 32))
    write_many(db, now, 3)
    append_to_file(db, tmp_path / "kept.jsonl")
    return db


def export(db: Database, tmp_path: Path) -> Path:
    file = tmp_path / "history.ndjson"
    file.write_text("".join(export_events(db, after=0)))
    return file


@pytest.mark.parametrize("key", [KEY, Signer(b"\x07" * 32).key], ids=["the first key", "the key after it"])
def test_a_whole_export_agrees(signed_history: Database, tmp_path: Path, verifier: Verifier, key: str) -> None:
    told = verifier(export(signed_history, tmp_path), key=key)

    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.startswith("346 entries, head ")
    assert told.stdout.endswith("; 2 checkpoints agree, the last is of entry 342\n")


NOT_EXPORTED = {"a column is edited", "a subject row is edited"}
"""An export is made of bodies and hashes: columns and rows beside them do not leave the database."""


@pytest.mark.parametrize("kind", [one for one in FORGERIES if one not in NOT_EXPORTED])
def test_a_forged_export_does_not(
    signed_history: Database, now: datetime, tmp_path: Path, verifier: Verifier, kind: str
) -> None:
    forge(signed_history, now, FORGERIES[kind], 300, Random(kind))

    told = verifier(export(signed_history, tmp_path))

    assert told.returncode == 1
    assert "entr" in told.stderr
    assert "Traceback" not in told.stderr


def test_another_key_is_not_believed(signed_history: Database, tmp_path: Path, verifier: Verifier) -> None:
    told = verifier(export(signed_history, tmp_path), key=Signer(b"\x09" * 32).key)

    assert told.returncode == 1
    assert "not signed by a key to be believed" in told.stderr


def test_a_changed_checkpoint_is_not_believed(signed_history: Database, tmp_path: Path, verifier: Verifier) -> None:
    kept = tmp_path / "kept.jsonl"
    kept.write_text(kept.read_text().replace('"sequence":300', '"sequence":299'))

    assert "checkpoint of entry 299 is not signed" in verifier(export(signed_history, tmp_path)).stderr


def test_a_rotation_that_was_changed_hands_nothing_over(
    signed_history: Database, tmp_path: Path, verifier: Verifier
) -> None:
    kept = tmp_path / "kept.jsonl"
    first, rotated, last = kept.read_text().splitlines()
    kept.write_text("\n".join([first, json.dumps({**json.loads(rotated), "sequence": 300}), last]))

    assert "was not handed over as it should be" in verifier(export(signed_history, tmp_path)).stderr


@pytest.mark.parametrize("text", ["", "{}", "[]", "nonsense", '{"root": 1}'])
def test_what_is_no_checkpoint_is_said(signed_history: Database, tmp_path: Path, verifier: Verifier, text: str) -> None:
    kept = tmp_path / "other.json"
    kept.write_text(text)

    told = verifier(export(signed_history, tmp_path), kept=kept)

    assert told.returncode == 1
    assert "checkpoint" in told.stderr
    assert "Traceback" not in told.stderr


@pytest.fixture
def device(fleet: Fleet, tmp_path: Path) -> Path:
    """One device's history with proofs, and the checkpoint for them."""
    write_many(fleet.db, fleet.clock.now, 700)
    fleet.admit()
    fleet.report(instance="i-2", boot="boot-2", node="node-b")
    signed = sign(fleet.db, fleet.clock.now, make_settings(tmp_path))
    fleet.hold({"device": serial(0)})
    (tmp_path / "kept.jsonl").write_text(write_line(signed))
    page = device_history(fleet.db, serial(0), {"proof": str(signed.sequence)}, EVERYTHING)
    file = tmp_path / "device.json"
    file.write_text(json.dumps({"items": page.items, "more": False}, indent=2))
    return file


def test_one_devices_export_is_proved(device: Path, verifier: Verifier) -> None:
    told = verifier(device)

    count = len(json.loads(device.read_text())["items"])
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == f"{count - 1} of {count} entries are proved; the others are newer than the checkpoint\n"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda items: items[0]["data"].update(serial="1"), "was changed"),
        (lambda items: items[0].update(hash="a" * 64), "was changed"),
        (lambda items: items[0]["proof"]["path"].pop(), "in no history that was signed"),
        (lambda items: items[0]["proof"].update(size=5), "in no history that was signed"),
        (lambda items: items[0].update(proof=items[1]["proof"]), "in no history that was signed"),
        (lambda items: items.pop(0), "entries are missing"),
        (lambda items: items.pop(1), "entries are missing"),
        (lambda items: items[0].pop("proof"), "no export"),
    ],
    ids=["data", "hash", "short path", "another tree", "another's proof", "first left out", "one left out", "no proof"],
)
def test_a_changed_export_of_a_device_is_not(
    device: Path, verifier: Verifier, change: Callable[[list[object]], object], reason: str
) -> None:
    document = json.loads(device.read_text())
    change(document["items"])
    device.write_text(json.dumps(document))

    told = verifier(device)

    assert told.returncode == 1
    assert reason in told.stderr
