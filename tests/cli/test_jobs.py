# SPDX-License-Identifier: Apache-2.0
"""Can a launcher tell of its job from a shell, and can a person read what became of it?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Pratique

NODES = ("--node", "node-a", "--node", "node-b", "--devices", "16")


def at(minute: int, second: int = 0) -> str:
    return f"2026-11-29T11:{minute:02d}:{second:02d}Z"


def tell(pratique: Pratique, kind: str, minute: int, *more: str) -> Any:
    result = pratique("job", "report", "llama-7", kind, "--at", at(minute), *more)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def story(pratique: Pratique) -> Pratique:
    """A job that lost a node, and went on."""
    tell(pratique, "started", 0, *NODES)
    tell(pratique, "progress", 1, "--step", "0")
    tell(pratique, "progress", 11, "--step", "600", "--checkpoint", "600")
    tell(pratique, "interrupted", 12, "--cause", "hardware", "--node", "node-b", "--message", "Xid 79", "--released")
    tell(pratique, "started", 20, *NODES)
    tell(pratique, "progress", 21, "--step", "600")
    tell(pratique, "paused", 31, "--reason", "checkpoint", "--step", "1200")
    tell(pratique, "resumed", 32)
    tell(pratique, "ended", 33, "--outcome", "completed", "--step", "1260")
    return pratique


def test_a_job_is_told_and_shown(story: Pratique) -> None:
    shown = story("job", "show", "llama-7").stdout

    assert "goodput" in shown
    assert "84.00%" in shown
    rows = [line.split() for line in shown.splitlines()]
    assert ["lost_progress", "hardware", "60", "4.00%"] in rows
    assert ["checkpointing", "user", "60", "4.00%"] in rows
    assert ["start_up", "hardware", "60", "4.00%"] in rows


def test_jobs_are_listed_with_what_they_were_worth(story: Pratique) -> None:
    listed = story("job", "list", "--state", "ended").stdout

    assert listed.splitlines()[1].split()[:6] == ["llama-7", "ended", "completed", "16", "84.00%", "1"]
    assert story.json("job", "list", "--node", "node-z")["items"] == []


def test_a_whole_story_is_told_from_a_file(pratique: Pratique) -> None:
    events = [
        {"event_id": "1", "kind": "started", "at": at(0), "nodes": ["node-a"], "devices": 8},
        {"event_id": "2", "kind": "progress", "at": at(1)},
    ]
    result = pratique("job", "report", "j", "--from", "-", given=json.dumps(events))

    assert result.exit_code == 1
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [["recorded", "1"], ["refused", "2"]]
    assert "needs step" in result.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("report", "j"),
        ("report", "j", "begun"),
        ("report", "j", "resumed", "--event-id", "e-1"),
        ("report", "j", "resumed", "--from", "-"),
        ("report", "j", "--step", "3", "--from", "-"),
    ],
    ids=" ".join,
)
def test_what_happened_is_said_one_way(pratique: Pratique, words: tuple[str, ...]) -> None:
    assert pratique("job", *words, given="[]").exit_code == 2


def test_the_objectives_are_read_in_columns(story: Pratique) -> None:
    shown = story("slo").stdout
    rows = [line.split() for line in shown.splitlines()]

    assert ["availability", "95%", "-", "-", "-", "-"] in rows
    assert next(row for row in rows if row[:1] == ["goodput"])[:3] == ["goodput", "90%", "84.00%"]
    assert ["goodput", "8.00%", "0.00%", "0.00%", "8.00%", "0.00%"] in rows
    assert ["productive", "-", "84.00%"] in rows
    assert "seen for 0.00% of 30 days" in shown


def test_the_objectives_of_a_new_server_are_read_too(pratique: Pratique) -> None:
    result = pratique("slo")

    assert result.exit_code == 0
    assert ["interruptions", "6.5", "-", "-", "-", "-"] in [line.split() for line in result.stdout.splitlines()]


def test_an_auditor_reads_and_does_not_tell(story: Pratique) -> None:
    assert story("slo", who="auditor").exit_code == 0
    assert story("job", "show", "llama-7", who="auditor").exit_code == 0
    assert story("job", "report", "llama-7", "resumed", who="auditor").exit_code == 3
