# SPDX-License-Identifier: Apache-2.0
"""Do the commands of operators and auditors do what their help says, against the real application?"""

from __future__ import annotations

import json

import pytest

from registry.admin.demo_hardware import make_machine
from registry.domain.times import rfc3339
from tests.cli.conftest import Pratique

MACHINE = make_machine("node-a", 1)
SERIAL = MACHINE.gpus[3].serial


@pytest.fixture(autouse=True)
def reported(pratique: Pratique) -> None:
    """Every story here begins with a node that has reported once."""
    result = pratique.report(MACHINE)
    assert result.exit_code == 0, result.output


def test_a_report_says_whether_it_counted(pratique: Pratique) -> None:
    result = pratique.report(MACHINE)

    assert "The run counted: 2 of 2 passes." in result.stdout
    assert "node-a: admitted" in result.stdout


def test_a_report_from_devices_alone_says_why_it_did_not_count(pratique: Pratique) -> None:
    options = ("--boot-id", MACHINE.boot_id, "--provider-id", MACHINE.provider_id, "--profile", "p5.48xlarge")

    found = pratique.json("report", "node-a", *options, "--check", "gpu.xid=pass", who="node-a")

    assert not found["pass"]["counted"]
    assert found["pass"]["because"] == "check_missing"


@pytest.mark.parametrize(
    "given", ["", "<nvidia_smi_log>", "Failed to initialize NVML: Driver/library version mismatch"]
)
def test_hardware_that_cannot_be_read_has_an_exit_code_of_its_own(pratique: Pratique, given: str) -> None:
    options = ("--boot-id", "b", "--provider-id", "i", "--profile", "g5.48xlarge", "--part", "nvidia_smi_xml=-")

    result = pratique("report", "node-a", *options, who="node-a", given=given)

    assert result.exit_code == 4
    assert result.stdout == ""


def test_a_device_is_shown_with_its_history(pratique: Pratique) -> None:
    shown = pratique.json("device", "show", SERIAL)
    past = pratique.json("device", "history", SERIAL, who="auditor")
    newest = pratique.json("device", "history", SERIAL, "--order", "desc", "--limit", "1")

    assert shown["serial"] == SERIAL
    assert past["items"][0]["type"] == "device.registered"
    assert newest["items"][0]["sequence"] == past["items"][-1]["sequence"]
    assert newest["more"]
    assert SERIAL in pratique("device", "show", SERIAL).stdout
    assert "device.registered" in pratique("device", "history", SERIAL).stdout


def test_nodes_are_listed_shown_and_retired(pratique: Pratique) -> None:
    assert "node-a" in pratique("node", "list").stdout
    assert SERIAL in pratique("node", "show", "node-a").stdout
    assert pratique.json("node", "list", "--state", "retired")["items"] == []
    assert pratique("node", "retire", "node-a", "--reason", "returned", "--yes").exit_code == 0
    assert [one["name"] for one in pratique.json("node", "list", "--state", "retired")["items"]] == ["node-a"]


def test_a_hold_is_opened_once_shown_and_released(pratique: Pratique) -> None:
    command = ("quarantine", "open", "--device", SERIAL, "--reason", "smells", "--ticket", "OPS-7")

    tried = pratique.json(*command, "--dry-run")
    opened = pratique.json(*command)["items"][0]
    again = pratique.json(*command)["items"][0]
    listed = pratique.json("quarantine", "list", "--state", "open", "--ticket", "OPS-7")["items"]
    hold = opened["quarantine"]["id"]
    shown = pratique.json("quarantine", "show", hold)
    released = pratique.json("quarantine", "release", hold, "--reason", "fine again")
    twice = pratique("quarantine", "release", hold, "--reason", "fine again")

    assert tried["dry_run"]
    assert [opened["outcome"], again["outcome"]] == ["opened", "already_open"]
    assert [one["id"] for one in listed] == [hold]
    assert shown["reason"] == "smells"
    assert released["state"] == "released"
    assert twice.exit_code == 1
    assert "not_open" in twice.stderr


def test_several_targets_each_have_an_outcome(pratique: Pratique) -> None:
    targets = ("--device", SERIAL, "--device", "no-such-serial", "--identifier", "gpu:serial:1111111111111")

    result = pratique("quarantine", "open", *targets, "--reason", "x")
    released = pratique.json("quarantine", "release", "--device", SERIAL, "--reason", "x")

    assert result.exit_code == 1
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["opened", "refused", "opened"]
    assert released["items"][0]["outcome"] == "released"


def test_a_hold_is_looked_at_again_and_goes_on(pratique: Pratique) -> None:
    hold = pratique.json("quarantine", "open", "--device", SERIAL, "--reason", "smells")["items"][0]["quarantine"]["id"]

    again = ("quarantine", "review", hold, "--reason", "asked the maker")
    shown = pratique.json(*again, "--review-at", "2099-01-31T12:00:00Z", "--ticket", "RMA-7")
    told = pratique(*again, "--ticket", "RMA-8")
    nothing = pratique(*again)

    assert (shown["state"], shown["ticket"], shown["review_at"][:10]) == ("open", "RMA-7", "2099-01-31")
    assert "RMA-8" in told.stdout
    assert nothing.exit_code == 1
    assert "a new date, a ticket, or both" in nothing.stderr


def test_nothing_held_is_told_as_a_refusal(pratique: Pratique) -> None:
    found = pratique.json("quarantine", "open", "--device", "no-such-serial", "--reason", "x")

    assert found["code"] == "not_found"
    assert found["items"][0]["outcome"] == "refused"


def test_a_failure_is_recorded_once(pratique: Pratique) -> None:
    place = ("--node", "node-a", "--slot", MACHINE.slot_of(MACHINE.gpus[3]), "--occurred-at", rfc3339(pratique.clock()))
    command = ("failure", "add", "--code", "xid_79", "--failure-id", "f-1", *place)

    first = pratique.json(*command, who="node-a")["items"][0]
    second = pratique.json(*command, who="node-a")["items"][0]

    assert [first["outcome"], second["outcome"]] == ["recorded", "already_recorded"]
    assert pratique("admit", "node-a").exit_code == 10


def test_failures_come_from_a_file_too(pratique: Pratique) -> None:
    common = {"code": "xid_13", "device": SERIAL, "occurred_at": rfc3339(pratique.clock())}
    listed = [{"failure_id": f"f-{number}", **common} for number in range(3)]

    result = pratique("failure", "add", "--from", "-", given=json.dumps(listed))

    assert [line.split()[0] for line in result.stdout.splitlines()] == ["recorded"] * 3


def test_profiles_are_set_and_listed(pratique: Pratique) -> None:
    assert pratique("profile", "set", "lab-2x", "--gpus", "2", "--efas", "0", "--per-boot", "dcgm.diag").exit_code == 0
    assert pratique("profile", "set", "lab-3x", "--from", "-", given='{"gpu": {"count": 3}}').exit_code == 0

    listed = {one["name"]: one for one in pratique.json("profile", "list")["items"]}

    assert listed["lab-2x"]["per_boot_checks"] == ["dcgm.diag"]
    assert listed["lab-3x"]["gpu"]["count"] == 3
    assert "p5.48xlarge" in listed


def test_no_conflict_is_an_empty_list(pratique: Pratique) -> None:
    assert pratique.json("conflict", "list") == {"items": [], "more": False}
    assert pratique("conflict", "resolve", "x", "--as", "same_device", "--reason", "y").exit_code == 1


def test_only_an_admin_may_take_note_of_a_loss_and_only_when_there_is_one(pratique: Pratique) -> None:
    command = ("service", "acknowledge", "--reason", "seen")

    assert pratique(*command).exit_code == 3
    told = pratique(*command, who="admin")
    assert told.exit_code == 1
    assert "not in safe mode" in told.stderr


def test_the_history_is_exported_line_by_line(pratique: Pratique) -> None:
    lines = pratique("events", "export", who="auditor").stdout.splitlines()
    rest = pratique("events", "export", "--after", "5", who="auditor").stdout.splitlines()

    assert [json.loads(line)["sequence"] for line in lines] == list(range(1, len(lines) + 1))
    assert rest == lines[5:]


def test_an_auditor_changes_nothing(pratique: Pratique) -> None:
    result = pratique("quarantine", "open", "--device", SERIAL, "--reason", "x", who="auditor")

    assert result.exit_code == 3
    assert "forbidden" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("quarantine", "open", "--reason", "x"),
        ("quarantine", "open", "--identifier", "gpu-serial-1", "--reason", "x"),
        ("quarantine", "open", "--device", "x", "--reason", "x", "--expires-at", "tomorrow"),
        ("quarantine", "release", "id", "--device", "x", "--reason", "x"),
        ("quarantine", "release", "--reason", "x"),
        ("failure", "add"),
        ("failure", "add", "--from", "/nonexistent"),
        ("failure", "add", "--code", "xid_79", "--device", "x", "--failure-id", "f-1"),
        ("profile", "set", "x"),
        ("report", "node-a", "--provider-id", "i", "--profile", "p", "--part", "nonsense"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_followed_is_a_usage_error(pratique: Pratique, arguments: tuple[str, ...]) -> None:
    assert pratique(*arguments).exit_code == 2
