# SPDX-License-Identifier: Apache-2.0
"""Does a bundle hold all that is known of one device, proved, the same each time, and no secret?"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from registry.domain.errors import DeviceAmbiguous, NotFound
from registry.services import device_bundle, rotation
from registry.services.history import device_history
from registry.services.notes import note_device
from tests.fleet import ALICE, EVERYTHING, Fleet, gpu, serial
from tests.project import ROOT
from tests.services.signed import KEY, PRIVATE, make_settings, sign, write_many

FILES = [
    *("README.txt", "identity.json", "timeline.json", "timeline.svg", "swap_test.txt", "failures.csv", "dcgm.json"),
    *("holds.json", "notes.json", "history.ndjson", "checkpoints.jsonl", "SHA256SUMS"),
]


def make(fleet: Fleet, ref: str = serial(0)) -> bytes:
    evidence = device_bundle.gather(fleet.db, ref, policy=fleet.policy, now=fleet.clock.now)
    return b"".join(device_bundle.stream(fleet.db, evidence))


def unpack(data: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.fixture
def bad_card(fleet: Fleet, tmp_path: Path) -> Fleet:
    """GPU 0 failed on two nodes, was looked at by DCGM, held, and written about; a checkpoint covers most of it."""
    fleet.admit()
    fleet.fail("xid_79", device=serial(0), node="node-a", slot="0000:10:00.0", occurred_at=fleet.clock.now)
    fleet.clock.advance(60)
    fleet.report("node-b", [gpu(0, at=5)], instance="i-9", profile="g5.xlarge")
    fleet.fail("xid_79", device=serial(0), node="node-b", occurred_at=fleet.clock.now, message='=HYPERLINK("x")')
    fleet.fail(
        "dcgm_fr_row_remap_failure", device=serial(0), node="node-b", occurred_at=fleet.clock.now, evidence={"test": 4}
    )
    write_many(fleet.db, fleet.clock.now, 50)
    sign(fleet.db, fleet.clock.now, make_settings(tmp_path))
    fleet.clock.advance(60)
    note_device(fleet.db, serial(0), text="smells burnt", actor=ALICE, now=fleet.clock.now)
    return fleet


def test_it_holds_all_that_is_known_of_the_device(bad_card: Fleet) -> None:
    files = unpack(make(bad_card))

    assert list(files) == FILES
    assert json.loads(files["identity.json"])["serial"] == serial(0)
    assert [one["node"] for one in json.loads(files["timeline.json"])["nodes"]] == ["node-a", "node-b"]
    assert files["swap_test.txt"].startswith("The fault followed the card: ")
    assert json.loads(files["notes.json"])[0]["text"] == "smells burnt"
    assert json.loads(files["holds.json"])[0]["owner"].startswith("rule:")
    (diagnosed,) = json.loads(files["dcgm.json"])["failures"]
    assert (diagnosed["code"], diagnosed["evidence"]) == ("dcgm_fr_row_remap_failure", {"test": 4})
    told = [json.loads(line) for line in files["history.ndjson"].splitlines()]
    kept = device_history(bad_card.db, serial(0), {}, EVERYTHING).items
    assert [one["hash"] for one in told] == [one["hash"] for one in kept]
    assert "verify_history.py" in files["README.txt"]


def test_no_cell_of_its_table_is_a_formula(bad_card: Fleet) -> None:
    rows = list(csv.DictReader(io.StringIO(unpack(make(bad_card))["failures.csv"])))

    assert [row["code"] for row in rows] == ["xid_79", "xid_79", "dcgm_fr_row_remap_failure"]
    assert rows[1]["message"] == '\'=HYPERLINK("x")'


def test_the_digests_in_it_are_those_of_its_files(bad_card: Fleet) -> None:
    files = unpack(make(bad_card))

    sums = dict(reversed(line.split("  ")) for line in files.pop("SHA256SUMS").splitlines())

    assert sums == {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}


def test_the_same_records_give_the_same_bytes(bad_card: Fleet) -> None:
    assert make(bad_card) == make(bad_card)


def test_long_histories_are_written_piece_by_piece_and_whole(bad_card: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = unpack(make(bad_card))

    for size in (1, 2, 3):
        monkeypatch.setattr(device_bundle, "PIECE", size)

        assert unpack(make(bad_card)) == whole


def test_what_happens_while_it_is_made_is_left_out(bad_card: Fleet) -> None:
    evidence = device_bundle.gather(bad_card.db, serial(0), policy=bad_card.policy, now=bad_card.clock.now)
    note_device(bad_card.db, serial(0), text="too late", actor=ALICE, now=bad_card.clock.now)

    files = unpack(b"".join(device_bundle.stream(bad_card.db, evidence)))

    assert "too late" not in files["history.ndjson"]


def test_no_secret_is_in_it(bad_card: Fleet) -> None:
    text = "".join(unpack(make(bad_card)).values())

    assert "prq_" not in text
    assert PRIVATE not in text


def test_a_device_that_is_unknown_or_ambiguous_has_none(fleet: Fleet) -> None:
    fleet.report(devices=[gpu(0), gpu(1, serial=serial(0))])

    with pytest.raises(DeviceAmbiguous):
        make(fleet)
    with pytest.raises(NotFound):
        make(fleet, "nobody")


def test_without_a_checkpoint_it_says_that_nothing_is_proved(fleet: Fleet) -> None:
    fleet.admit()

    files = unpack(make(fleet))

    assert "No checkpoint has been signed yet" in files["README.txt"]
    assert {json.loads(line)["proof"] for line in files["history.ndjson"].splitlines()} == {None}
    assert files["checkpoints.jsonl"] == ""


Verify = Callable[[dict[str, str]], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def verify(tmp_path: Path) -> Verify:
    """Check what was unpacked as its README says, with Python alone."""

    def run(files: dict[str, str]) -> subprocess.CompletedProcess[str]:
        for name in ("history.ndjson", "checkpoints.jsonl"):
            (tmp_path / name).write_text(files[name])
        given = ["--key", KEY, "--checkpoints", "checkpoints.jsonl", "history.ndjson"]
        program = [sys.executable, "-I", "-S", str(ROOT / "deploy" / "verify_history.py")]
        return subprocess.run([*program, *given], cwd=tmp_path, text=True, capture_output=True, check=False)

    return run


def test_its_history_is_verified_offline(bad_card: Fleet, verify: Verify) -> None:
    files = unpack(make(bad_card))

    told = verify(files)

    count = len(files["history.ndjson"].splitlines())
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == f"{count - 1} of {count} entries are proved; the others are newer than the checkpoint\n"


def test_it_is_verified_with_a_key_that_was_handed_over_since(bad_card: Fleet, verify: Verify, tmp_path: Path) -> None:
    rotation.rotate(bad_card.db, make_settings(tmp_path), b"\x07" * 32, now=bad_card.clock.now)
    sign(bad_card.db, bad_card.clock.now, make_settings(tmp_path, signing_key="07" * 32))

    told = verify(unpack(make(bad_card)))

    assert (told.returncode, told.stderr) == (0, "")
    assert "0 of" not in told.stdout


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda lines: lines.pop(0), "entries are missing"),
        (lambda lines: lines.pop(2), "entries are missing"),
        (lambda lines: lines.__setitem__(1, lines[1].replace("node-a", "node-z")), "was changed"),
    ],
    ids=["first left out", "one left out", "another node"],
)
def test_a_changed_history_is_found_out(
    bad_card: Fleet, verify: Verify, change: Callable[[list[str]], object], reason: str
) -> None:
    files = unpack(make(bad_card))
    lines = files["history.ndjson"].splitlines()
    change(lines)

    told = verify({**files, "history.ndjson": "\n".join(lines) + "\n"})

    assert told.returncode == 1
    assert reason in told.stderr
