# SPDX-License-Identifier: Apache-2.0
"""Is the newest checkpoint outside found, whatever else stands in its file?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from registry.domain.safe_mode import Head
from registry.services.outside import TAIL_BYTES, newest_outside_checkpoint, outside_checkpoints
from registry.store.migrations import NotReady


def line(sequence: object, hash_: object = "a" * 64) -> str:
    return json.dumps({"sequence": sequence, "hash": hash_, "root": "b" * 64, "signed_at": "2026-11-29T12:00:00Z"})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def test_the_last_line_counts_even_when_its_sequence_is_lower(file: Path) -> None:
    file.write_text(f"{line(5)}\n{line(9)}\n{line(7)}\n")

    assert newest_outside_checkpoint(file) == Head(7, "a" * 64)
    assert [one.sequence for one in outside_checkpoints(file)] == [7, 9, 5]


def test_nothing_was_seen_without_a_file_or_with_nothing_in_it(file: Path) -> None:
    assert newest_outside_checkpoint(None) is None
    assert newest_outside_checkpoint(file) is None
    file.write_text("\n")
    assert newest_outside_checkpoint(file) is None


def test_a_line_that_was_cut_off_is_passed_over(file: Path) -> None:
    file.write_text(f"{line(5)}\n{line(9)}\n{line(12)[:-20]}")

    assert newest_outside_checkpoint(file) == Head(9, "a" * 64)


def test_only_the_end_of_a_long_file_is_read(file: Path) -> None:
    lines = [line(sequence) for sequence in range(1, 2000)]
    file.write_text("\n".join(lines) + "\n")

    found = outside_checkpoints(file)

    assert found[0].sequence == 1999
    assert len(found) == TAIL_BYTES // (len(lines[-1]) + 1)


@pytest.mark.parametrize(
    "text",
    ["hello", "[]", line("5"), line(True), line(0), line(2**63), line(5, "A" * 64), line(5, None), '{"sequence": 5}'],
)
def test_a_file_without_a_checkpoint_in_it_is_not_passed_over(file: Path, text: str) -> None:
    file.write_text(f"{text}\n")

    with pytest.raises(NotReady, match="cannot be read"):
        outside_checkpoints(file)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="directory"):
        outside_checkpoints(tmp_path)
