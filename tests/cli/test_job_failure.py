# SPDX-License-Identifier: Apache-2.0
"""Is it told at the command line who is to blame for a failed job?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from registry.admin.demo_hardware import make_machine
from tests.cli.conftest import Pratique

TIMES = ("--started-at", "2026-11-29T06:00:00Z", "--failed-at", "2026-11-29T12:00:00Z")
JOB = ("job-failure", "add", "--job-id", "j-1", "--node", "node-a", *TIMES)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.err"
    path.write_bytes(b"\x1b[1mTraceback\xff\nKeyError: 'labels'\n")
    return path


def test_one_line_says_who_and_what_to_do_and_the_rest_why(pratique: Pratique, log: Path) -> None:
    shown = pratique(*JOB, "--exit-code", "1", "--log", str(log))

    assert shown.exit_code == 0
    first, *why = shown.stdout.splitlines()
    assert first.split("  ")[:2] + first.split("  ")[3:] == ["application", "user", "do_not_retry"]
    assert "the program raised an exception of its own" in why[0]


def test_a_device_that_is_left_out_is_named(pratique: Pratique) -> None:
    machine = make_machine("node-a", 1)
    pratique.report(machine)
    serial = machine.gpus[3].serial
    pratique("failure", "add", "--code", "xid_79", "--device", serial)

    found = pratique.json(*JOB)
    assert found["retry"] == "exclude_devices"
    (device,) = found["exclude"]["devices"]
    assert device in pratique(*JOB).stdout.splitlines()[0]
    assert pratique.json("job-failure", "list", "--device", serial)["items"][0]["id"] == found["id"]


def test_a_whole_failure_comes_from_a_file(pratique: Pratique) -> None:
    said = {
        "job_id": "j-2",
        "nodes": ["node-a"],
        "started_at": "2026-11-29T06:00:00Z",
        "failed_at": "2026-11-29T12:00:00Z",
        "signals": [{"kind": "preempted", "at": "2026-11-29T11:59:00Z"}],
    }
    found = pratique.json("job-failure", "add", "--from", "-", given=json.dumps(said))

    assert (found["cause"], found["retry"]) == ("platform", "as_is")


def test_the_verdicts_before_are_shown(pratique: Pratique, log: Path) -> None:
    pratique(*JOB)
    found = pratique.json(*JOB, "--log", str(log))

    shown = pratique("job-failure", "show", found["id"]).stdout
    assert "more was told" in shown
    assert "undecided" in shown
    assert pratique.json("job-failure", "show", found["id"])["log_excerpt"].startswith("Traceback\ufffd\nKeyError")
    assert "j-1" in pratique("job-failure", "list", "--attribution", "application").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("job-failure", "add", "--job-id", "j-1"), "--node, --started-at, --failed-at is missing"),
        ((*JOB, "--from", "-"), "--from goes without"),
    ],
)
def test_a_failure_is_told_in_one_way_and_whole(pratique: Pratique, arguments: tuple[str, ...], words: str) -> None:
    refused = pratique(*arguments, given="{}")

    assert refused.exit_code == 2
    assert words in refused.stderr


def test_a_file_with_a_number_that_no_json_can_hold_is_a_usage_error(pratique: Pratique) -> None:
    refused = pratique("job-failure", "add", "--from", "-", given='{"exit_code": 1e999}')

    assert refused.exit_code == 2
    assert "holds no JSON" in refused.stderr
