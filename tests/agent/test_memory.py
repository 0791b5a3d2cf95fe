# SPDX-License-Identifier: Apache-2.0
"""Does the agent tell what goes on after it was told, nothing twice, and does it outlive a spoilt memory?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from registry.agent.memory import Memory

TOLD = {
    "failure_id": "k-1",
    "code": "xid_13",
    "slot": "0000:53:00.0",
    "occurred_at": "2026-01-01T00:00:00Z",
    "last_at": "2026-01-01T00:00:00Z",
    "evidence": {"uptime_microseconds": 1_000},
}


def grown(**changes: Any) -> dict[str, Any]:
    evidence = {"uptime_microseconds": 1_000, "last_uptime_microseconds": 9_000}
    return {**TOLD, "count": 2, "last_at": "2026-01-01T00:08:00Z", "evidence": evidence, **changes}


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    made = Memory(tmp_path / "memory.json", "boot")
    made.note_told([TOLD])
    return made


def test_what_was_told_is_no_news_and_what_has_gone_on_is(memory: Memory) -> None:
    assert memory.news(TOLD) is None
    assert memory.news(grown()) == grown()

    memory.note_told([grown()])

    assert memory.news(grown()) is None


def test_a_burst_without_times_has_gone_on_when_it_counts_more(memory: Memory) -> None:
    undated = {"failure_id": "d-1", "code": "dcgm_x"}
    memory.note_told([undated])

    assert memory.news(undated) is None
    assert memory.news({**undated, "count": 3}) == {**undated, "count": 3}


def test_a_sight_that_was_told_under_another_id_is_not_told_again(memory: Memory) -> None:
    memory.note_told([{**TOLD, "failure_id": "k-2", "evidence": {"uptime_microseconds": 9_000}}])

    assert memory.news(grown()) is None
    assert memory.news(grown(slot="0000:59:00.0", failure_id="k-3")) is not None


def test_a_story_keeps_its_beginning_also_when_the_clock_was_set(memory: Memory) -> None:
    later = memory.news(grown(occurred_at="2031-01-01T00:00:00Z", last_at="2031-01-01T00:08:00Z"))

    assert later is not None
    assert (later["occurred_at"], later["last_at"]) == (TOLD["occurred_at"], "2031-01-01T00:08:00Z")


def test_it_is_all_there_after_the_agent_was_killed(memory: Memory, tmp_path: Path) -> None:
    memory.failing.append({"status": "fail", "device": "s", "code": "xid_79", "message": "m"})
    memory.was_admitted = True
    memory.save()

    again = Memory(tmp_path / "memory.json", "boot")

    assert (again.told, again.failing, again.was_admitted) == (memory.told, memory.failing, True)
    assert Memory(tmp_path / "memory.json", "another boot").told == {}


def test_what_only_memory_holds_is_told_again_by_the_next_agent(memory: Memory, tmp_path: Path) -> None:
    memory.note_told([grown()], is_safe=False)
    memory.save()
    assert memory.news(grown()) is None
    assert Memory(tmp_path / "memory.json", "boot").news(grown()) is not None

    memory.settle()
    memory.save()

    assert Memory(tmp_path / "memory.json", "boot").news(grown()) is None


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"[1, 2]",
        b"[" * 200_000,
        b"{}"[:1],
        json.dumps({"boot_id": "boot"}).encode(),
        json.dumps({"boot_id": "boot", "told": {"k": ["xid_13 x", 1]}}).encode(),
        json.dumps({"boot_id": "boot", "told": {}, "failing": [{"status": "odd"}], "standing": {}}).encode(),
        json.dumps({"boot_id": "boot", "told": {}, "failing": [], "standing": {"a": "b"}}).encode(),
    ],
    ids=["no-text", "list", "deep", "cut", "empty", "short", "status", "number"],
)
def test_a_file_that_no_agent_wrote_is_set_aside_and_named(tmp_path: Path, content: bytes) -> None:
    said: list[str] = []
    file = tmp_path / "memory.json"
    file.write_bytes(content)

    memory = Memory(file, "boot", said.append)
    memory.save()

    assert memory.told == {}
    assert (tmp_path / "memory.json.spoilt").read_bytes() == content
    assert ["memory.json cannot be used" in sentence for sentence in said] == [True]


def test_a_folder_in_its_place_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "memory.json").mkdir()

    Memory(tmp_path / "memory.json", "boot").save()

    assert (tmp_path / "memory.json").is_file()
