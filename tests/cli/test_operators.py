# SPDX-License-Identifier: Apache-2.0
"""Does every answer to an operator come as one JSON document where that is asked for, and do the rest do their work?"""

from __future__ import annotations

import csv
import io
import json

import click
import pytest

from registry.admin.demo_hardware import make_machine
from registry.cli.connection import NO_ANSWER
from registry.domain.errors import PROBLEM_CODES
from registry.domain.times import rfc3339
from registry.main import main
from tests.cli.conftest import Pratique
from tests.cli.test_main import walk

MACHINE = make_machine("node-a", 1)
SERIAL = MACHINE.gpus[3].serial
LATER = "2099-01-01T00:00:00Z"
UNTIL = ("--until", LATER, "--reason", "x")

DOCUMENTS = [
    ("admit", "node-a"),
    ("device", "list"),
    ("device", "show", SERIAL),
    ("device", "history", SERIAL),
    ("device", "note", SERIAL, "x"),
    ("node", "list"),
    ("node", "show", "node-a"),
    ("node", "history", "node-a"),
    ("node", "maintenance", "node-a", *UNTIL),
    ("node", "waive", "node-a", "--kind", "gpu", "--count", "7", *UNTIL),
    ("node", "retire", "node-a", "--yes"),
    ("quarantine", "open", "--device", SERIAL, "--reason", "x"),
    ("quarantine", "import", "-", "--reason", "x"),
    ("quarantine", "list"),
    ("quarantine", "show", "no-such-id"),
    ("quarantine", "release", "--device", SERIAL, "--reason", "x"),
    ("quarantine", "review", "no-such-id", "--reason", "x", "--ticket", "RMA-7"),
    ("failure", "add", "--code", "xid_13", "--device", SERIAL),
    ("failure", "list"),
    ("failure", "show", "no-such-id"),
    ("failure", "withdraw", "no-such-id", "--reason", "x"),
    ("repair", "list"),
    ("repair", "show", "no-such-id"),
    ("repair", "claim", "no-such-id"),
    ("repair", "complete", "no-such-id", "--outcome", "done"),
    ("repair", "cancel", "no-such-id", "--reason", "x"),
    ("repair", "budget"),
    ("repair", "stop", "--reason", "x"),
    ("repair", "resume", "--reason", "x"),
    ("job", "report", "job-1", "started", "--node", "node-a", "--devices", "8"),
    ("job", "list"),
    ("job", "show", "no-such-job"),
    (
        *("job-failure", "add", "--job-id", "job-1", "--node", "node-a", "--started-at", "2026-11-01T06:00:00Z"),
        *("--failed-at", "2026-11-01T12:00:00Z"),
    ),
    ("job-failure", "list"),
    ("job-failure", "show", "no-such-id"),
    ("slo",),
    ("conflict", "list"),
    ("conflict", "show", "no-such-id"),
    ("conflict", "resolve", "no-such-id", "--as", "same_device", "--reason", "x"),
    ("profile", "list"),
    ("profile", "show", "p5.48xlarge"),
    ("profile", "set", "lab-2x", "--gpus", "2"),
    ("policy", "show"),
    ("policy", "diff"),
    ("admission", "preview", "--node", "node-a"),
    ("webhook", "list"),
    ("webhook", "show", "no-such-id"),
    ("webhook", "deliveries", "no-such-id"),
    ("events", "list"),
]
NOT_HERE = {
    "agent": "goes on until it is told to stop: tried in tests/agent and tests/live",
    "controller": "goes on until it is told to stop: tried in tests/kubernetes",
    "device bundle": "writes a zip file: tried in test_device_bundle",
    "join": "prints a token into a file: tried in test_join",
    "report": "tried in test_commands",
    "service acknowledge": "takes an admin: tried in test_commands",
    **dict.fromkeys(
        (f"webhook {one}" for one in ("create", "change", "rotate", "test", "replay", "remove")),
        "takes an admin: tried in test_webhook",
    ),
    "events export": "is NDJSON whatever is asked for",
}


@pytest.fixture(autouse=True)
def reported(pratique: Pratique) -> None:
    """Every story here begins with a node that has reported once."""
    assert pratique.report(MACHINE).exit_code == 0


@pytest.mark.parametrize("command", DOCUMENTS, ids=lambda command: " ".join(command[:2]))
def test_the_answer_is_one_document(pratique: Pratique, command: tuple[str, ...]) -> None:
    result = pratique(*command, "--output", "json", given="serial\n1650000000001\n")

    assert isinstance(json.loads(result.stdout), dict)
    assert result.exit_code in {0, 1, 11}


def test_every_command_that_speaks_http_is_tried() -> None:
    leaves = {
        " ".join(path)
        for path, command in walk(main)
        if not isinstance(command, click.Group) and "--url" in {name for one in command.params for name in one.opts}
    }

    tried = {" ".join(command[: 1 + (command[0] not in {"admit", "slo"})]) for command in DOCUMENTS}
    assert leaves - NOT_HERE.keys() == tried


def test_every_command_has_its_answer_as_json() -> None:
    without = [
        " ".join(path)
        for path, command in walk(main)
        if not isinstance(command, click.Group)
        and "--output" not in {name for one in command.params for name in one.opts}
    ]

    assert without == ["agent", "controller", "serve", "demo"]


def test_no_answer_is_a_document_too() -> None:
    pratique = Pratique("http://127.0.0.1:9", {"operator": "prq_x"}, clock=None, folder=None)  # type: ignore[arg-type]

    result = pratique("admit", "node-a", "--output", "json")

    assert result.exit_code == 20
    assert json.loads(result.stdout)["code"] == NO_ANSWER
    assert NO_ANSWER not in PROBLEM_CODES


def test_a_node_is_kept_out_and_let_in_again(pratique: Pratique) -> None:
    pratique.report(MACHINE)
    command = ("node", "maintenance", "node-a", "--reason", "firmware")

    kept = pratique(*command, "--until", LATER)
    while_kept = pratique.json("admit", "node-a")
    ended = pratique(*command, "--end")

    assert (kept.exit_code, ended.exit_code) == (0, 0)
    assert [one["code"] for one in while_kept["reasons"]] == ["maintenance"]
    assert pratique("admit", "node-a").exit_code == 0


def test_a_missing_gpu_is_excused_for_a_while(pratique: Pratique) -> None:
    command = ("node", "waive", "node-a", "--kind", "gpu", "--count", "7", "--reason", "repair")

    granted, ended = pratique(*command, "--until", LATER), pratique(*command, "--end")
    types = [one["type"] for one in pratique.json("node", "history", "node-a")["items"]]

    assert (granted.exit_code, ended.exit_code) == (0, 0)
    assert [one for one in types if one.startswith("waiver")] == ["waiver.granted", "waiver.ended"]


@pytest.mark.parametrize("end", [(), ("--until", LATER, "--end")], ids=["neither", "both"])
@pytest.mark.parametrize("command", [("maintenance",), ("waive", "--kind", "gpu", "--count", "7")], ids=lambda c: c[0])
def test_how_long_is_said_one_way(pratique: Pratique, command: tuple[str, ...], end: tuple[str, ...]) -> None:
    assert pratique("node", *command, "node-a", "--reason", "x", *end).exit_code == 2


def test_a_fault_that_was_none_is_withdrawn_once(pratique: Pratique) -> None:
    when = rfc3339(pratique.clock())
    pratique("failure", "add", "--code", "xid_13", "--device", SERIAL, "--failure-id", "f-1", "--occurred-at", when)
    (fault,) = pratique.json("failure", "list", "--code", "xid_13", "--state", "active")["items"]
    command = ("failure", "withdraw", fault["id"], "--reason", "it was the neighbour's")

    first, second = pratique(*command), pratique(*command)

    assert (first.exit_code, second.exit_code) == (0, 1)
    assert "not_open" in second.stderr
    assert pratique.json("failure", "list", "--state", "active")["items"] == []
    assert "withdrawn" in pratique("failure", "list").stdout


def test_what_would_be_said_is_told_and_nothing_written(pratique: Pratique) -> None:
    pratique("quarantine", "open", "--identifier", "gpu:serial:1650000000001", "--reason", "recalled")
    before = pratique.json("events", "list", "--order", "desc", "--limit", "1")["items"]

    told = pratique("admission", "preview", "--node", "node-a", "--identifier", "gpu:serial:1650000000001")
    listed = [{"node": "node-a"}, {"identifiers": [{"kind": "gpu", "type": "serial", "value": "1650000000002"}]}]
    document = pratique.json("admission", "preview", "--from", "-", given=json.dumps(listed))

    assert told.exit_code == 0
    assert "node-a: not admitted" in told.stdout
    assert "gpu:serial:1650000000001: not admitted" in told.stdout
    assert "device_quarantined" in told.stdout
    assert [one["admitted"] for one in document["items"]] == [False, True]
    assert pratique.json("events", "list", "--order", "desc", "--limit", "1")["items"] == before
    assert pratique("admission", "preview").exit_code == 2


def test_lists_are_narrowed(pratique: Pratique) -> None:
    assert [one["serial"] for one in pratique.json("device", "list", "--serial", SERIAL)["items"]] == [SERIAL]
    assert SERIAL in pratique("device", "list", "--kind", "gpu").stdout
    assert {one["type"] for one in pratique.json("events", "list", "--type", "node.booted")["items"]} == {"node.booted"}
    assert pratique.json("events", "list", "--device", SERIAL, "--until", "2000-01-01T00:00:00Z")["items"] == []


def test_the_thresholds_are_shown_with_their_digest(pratique: Pratique) -> None:
    shown, told = pratique.json("policy", "show", who="auditor"), pratique("policy", "show", who="auditor").stdout

    assert shown["digest"] == pratique.json("admit", "node-a")["policy"]
    assert shown["digest"] in told
    assert "xid_79" in told


def test_the_history_is_exported_as_a_table_too(pratique: Pratique) -> None:
    lines = [json.loads(line) for line in pratique("events", "export", who="auditor").stdout.splitlines()]
    table = list(csv.DictReader(io.StringIO(pratique("events", "export", "--format", "csv", who="auditor").stdout)))

    assert [int(row["sequence"]) for row in table] == [line["sequence"] for line in lines]
    assert [row["hash"] for row in table] == [line["hash"] for line in lines]


def test_an_export_to_a_file_shows_how_far_it_is(pratique: Pratique, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = pratique("events", "export", who="auditor")
    for module in ("progress", "events"):
        monkeypatch.setattr(f"registry.cli.{module}.is_terminal", lambda: True)
    told = pratique("events", "export", who="auditor")

    assert "exporting" not in plain.stderr
    assert "exporting" in told.stderr
    assert told.stdout == plain.stdout
