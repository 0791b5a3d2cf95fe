# SPDX-License-Identifier: Apache-2.0
"""Is a list of bad hardware put on hold row by row, to the character, however its columns are spelt?"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from registry.cli import quarantine_import
from registry.collectors.serial_list import ListedRow, parse
from registry.domain.errors import PartUnreadable
from registry.main import main
from tests.cli.conftest import Pratique
from tests.cli.scripted import Answer, scripted

UUID = "GPU-6f1d3c42-0c3e-4a51-9d0b-1d2c3b4a5f60"


def import_at(url: str, text: str) -> Result:
    """Import a list at another server than the real one."""
    environment = {"PRATIQUE_URL": url, "PRATIQUE_TOKEN": "prq_x", "PRATIQUE_TOKEN_FILE": None}
    command = ["quarantine", "import", "-", "--reason", "x", "--output", "json"]
    return CliRunner(env=environment).invoke(main, command, input=text, catch_exceptions=False)


def values(text: str) -> list[str]:
    return [value for row in parse(text.encode()).rows for _, value in row.identifiers]


@pytest.mark.parametrize(
    "header", ["serial", "gpu_serial", "Serial", ' "serial "', "serial [x]", "SERIAL [a b] ", "\ufeffserial"]
)
def test_a_column_is_known_however_it_is_spelt(header: str) -> None:
    assert values(f"{header}\r\n0322218049033\r\n") == ["0322218049033"]


def test_an_unknown_column_is_named() -> None:
    found = parse(b"gpu_uuid,Serial Number\n%s,1650000000001\n" % UUID.encode())

    assert found.unknown == ("Serial Number",)
    assert [value for row in found.rows for _, value in row.identifiers] == [UUID]


@pytest.mark.parametrize("header", ["pci.bus_id", "GPU_bus_id", " pci.bus_id [x] "])
def test_a_column_that_names_a_place_is_known_and_not_read(header: str) -> None:
    found = parse(f"serial,{header}\n1650000000001,00000000:3B:00.0\n".encode())
    lines = parse(b'{"serial": "1650000000001", "pci.bus_id": "00000000:3B:00.0"}\n')

    assert (found.unknown, found.places) == ((), (header.strip(),))
    assert (lines.unknown, lines.places) == ((), ("pci.bus_id",))
    assert [row.identifiers for row in found.rows] == [row.identifiers for row in lines.rows]


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("serial\n1.65E+12\n", "exponent form"),
        ("serial\n1,65E+12\n", "has 2 fields where the header has 1"),
        ('serial\n"1,65E+12"\n', "exponent form"),
        ("serial,uuid\n[N/A],\n", "neither a serial nor a UUID"),
        ("serial,gpu_serial\n1650000000001,1650000000002\n", "says two things about serial"),
        ("uuid\nMIG-6f1d3c42-0c3e-4a51-9d0b-1d2c3b4a5f60\n", "names a MIG slice"),
        ('{"serial": 322218049033}', "must be text"),
        ('{"serial": "1650000000001"', "is not JSON"),
        ('{"serial": "1650000000001"}\n["1650000000002"]', "is not a JSON object"),
    ],
)
def test_a_row_that_cannot_be_used_says_why(text: str, because: str) -> None:
    assert because in str(parse(text.encode()).rows[-1].problem)


def test_a_bad_row_spoils_no_other_and_keeps_its_number() -> None:
    found = parse(b"serial\n1650000000001\n\n1.65E+12\n0000000000017\n")

    assert [row.number for row in found.rows] == [2, 4, 5]
    assert [row.problem is None for row in found.rows] == [True, False, True]


def test_lines_of_json_name_the_same_as_columns() -> None:
    found = parse(b'{"GPU_Serial": "0322218049033", "rack": 7}\n{"uuid": "%s", "serial": null}\n' % UUID.encode())

    assert found.rows == (ListedRow(1, (("serial", "0322218049033"),)), ListedRow(2, (("uuid", UUID),)))  # type: ignore[arg-type]
    assert found.unknown == ("rack",)


@pytest.mark.parametrize("data", [b"", b" \n", b"rack,row\n1,2\n", b"1650000000001\n1650000000002\n", b"\xff\xfe\x00"])
def test_what_is_no_list_is_refused_whole(data: bytes) -> None:
    with pytest.raises(PartUnreadable):
        parse(data)


def test_every_row_is_held_and_told(pratique: Pratique) -> None:
    text = f"gpu_serial,gpu_uuid,note\n0322218049033,,x\n1.65E+12,,\n,{UUID},\n"

    result = pratique("quarantine", "import", "-", "--reason", "recalled", "--ticket", "OPS-7", given=text)
    held = pratique.json("quarantine", "list", "--state", "open")["items"]

    assert result.exit_code == 1
    assert [line.split()[:3] for line in result.stdout.splitlines()] == [
        ["row", "2", "opened"],
        ["row", "3", "refused"],
        ["row", "4", "opened"],
    ]
    assert "note" in result.stderr
    assert "2 opened, 1 refused" in result.stderr
    assert {one["value"] for hold in held for one in hold["identifiers"]} == {"0322218049033", UUID}
    assert {hold["ticket"] for hold in held} == {"OPS-7"}


def test_a_list_may_be_imported_again_and_tried_out(pratique: Pratique, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine_import, "BATCH", 3)
    text = "serial\n" + "".join(f"16500000{number:05}\n" for number in range(8))
    command = ("quarantine", "import", "-", "--reason", "recalled")

    tried = pratique.json(*command, "--dry-run", given=text)
    before = pratique.json("quarantine", "list")["items"]
    first, second = pratique.json(*command, given=text), pratique.json(*command, given=text)

    assert (tried["dry_run"], tried["counts"], before) == (True, {"opened": 8}, [])
    assert (first["counts"], second["counts"]) == ({"opened": 8}, {"already_open": 8})
    assert [item["row"] for item in first["items"]] == list(range(2, 10))


def test_an_import_that_breaks_off_says_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine_import, "BATCH", 1)
    opened = Answer(201, {"items": [{"target": {}, "outcome": "opened", "quarantine": {"id": "q-1"}}]})
    broken = Answer(403, {"code": "forbidden", "detail": "the token was revoked"})

    with scripted(opened, broken) as server:
        result = import_at(server.url, "serial\n165000001\n165000002\n")

    told = json.loads(result.stdout)
    assert result.exit_code == 3
    assert [item["row"] for item in told["items"]] == [2]
    assert told["unanswered"] == 1
    assert "import the list again" in result.stderr


def test_that_a_whole_batch_was_refused_is_an_outcome() -> None:
    refused = {"target": {}, "outcome": "refused", "code": "device_ambiguous", "message": "it fits two vendors"}
    problem = {"code": "device_ambiguous", "detail": "nothing is held", "items": [refused]}

    with scripted(Answer(422, problem)) as server:
        result = import_at(server.url, "serial\n165000001\n")

    told = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [(item["row"], item["message"]) for item in told["items"]] == [(2, "it fits two vendors")]
    assert told["counts"] == {"refused": 1}
    assert told["unanswered"] == 0


def test_what_cannot_be_read_is_a_usage_error(pratique: Pratique) -> None:
    assert pratique("quarantine", "import", "/nonexistent", "--reason", "x").exit_code == 2
    assert pratique("quarantine", "import", "-", "--reason", "x", given="rack\n7\n").exit_code == 2


@pytest.fixture
def bar(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A standard error that says it is a terminal."""
    monkeypatch.setattr("registry.cli.progress.is_terminal", lambda: True)
    return


def test_a_bar_shows_on_a_terminal_only(pratique: Pratique, request: pytest.FixtureRequest) -> None:
    command = ("quarantine", "import", "-", "--reason", "x", "--dry-run")

    silent = pratique(*command, given="serial\n1650000000001\n").stderr
    request.getfixturevalue("bar")
    told = pratique(*command, given="serial\n1650000000001\n").stderr

    assert "importing" not in silent
    assert "importing" in told
