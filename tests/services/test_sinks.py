# SPDX-License-Identifier: Apache-2.0
"""Do checkpoints get out of the database, in order, once the way is free, and without anybody waiting for it?"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from registry.config import Settings
from registry.domain.checkpoints import Checkpoint
from registry.services import rotation, safe_mode, sinks
from registry.services.outside import newest_outside_checkpoint, outside_checkpoints
from registry.services.sending import NotSent
from registry.services.sinks import SinkFailed, append_to_file, send_pending, write_line
from registry.store.database import Database
from tests.forgery import forge
from tests.services.signed import KEY, make_settings, sign, write_many
from tests.store.drafts import ALICE

URL = "https://audit.example/checkpoints?secret=1"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return make_settings(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file; its folder does not exist yet."""
    return tmp_path / "outside" / "checkpoints.jsonl"


def sign_more(db: Database, now: datetime, settings: Settings) -> Checkpoint:
    write_many(db, now, 2)
    return sign(db, now, settings)


def test_the_file_has_a_line_for_each_checkpoint_and_rotation(
    db: Database, now: datetime, settings: Settings, file: Path
) -> None:
    first = sign_more(db, now, settings)
    assert append_to_file(db, file) == 1
    second = sign_more(db, now, settings)
    rotated = rotation.rotate(db, settings, b"\x07" * 32, now=now)

    assert append_to_file(db, file) == 2
    assert append_to_file(db, file) == 0

    assert file.read_text() == write_line(first) + write_line(second) + write_line(rotated)
    assert json.loads(file.read_text().splitlines()[0]) == first.to_json()
    newest = newest_outside_checkpoint(file)
    assert newest is not None
    assert (newest.sequence, newest.hash) == (rotated.sequence, rotated.hash)


def test_a_line_that_a_power_loss_cut_off_is_ended_and_its_checkpoint_comes_again(
    db: Database, now: datetime, settings: Settings, file: Path
) -> None:
    first = sign_more(db, now, settings)
    append_to_file(db, file)
    second = sign_more(db, now, settings)
    with file.open("a") as written:
        written.write(write_line(second)[:100])

    assert append_to_file(db, file) == 1

    assert file.read_text() == f"{write_line(first)}{write_line(second)[:100]}\n{write_line(second)}"
    assert [one.sequence for one in outside_checkpoints(file)] == [second.sequence, first.sequence]


def test_nothing_is_added_to_the_evidence_of_another_history(
    db: Database, now: datetime, settings: Settings, file: Path
) -> None:
    strange = replace(sign_more(db, now, settings), hash="a" * 64, sequence=9)
    file.parent.mkdir()
    file.write_text(write_line(strange))

    with pytest.raises(SinkFailed, match="of entry 9, is of another history"):
        append_to_file(db, file)

    assert file.read_text() == write_line(strange)


def test_after_a_loss_that_was_taken_note_of_the_file_goes_on(
    db: Database, now: datetime, settings: Settings, file: Path
) -> None:
    first = sign_more(db, now, settings)
    append_to_file(db, file)
    lost = replace(first, hash="a" * 64, sequence=9)
    with file.open("a") as written:
        written.write(write_line(lost))
    assert safe_mode.assess(db, outside_checkpoints(file), now=now) is not None
    with pytest.raises(SinkFailed):
        append_to_file(db, file)
    safe_mode.acknowledge(db, reason="restored", actor=ALICE, now=now)
    second = sign_more(db, now, settings)

    assert append_to_file(db, file) == 1

    assert file.read_text() == write_line(first) + write_line(lost) + write_line(second)


def test_a_file_that_cannot_be_written_is_said_and_stops_nobody(
    db: Database, now: datetime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").write_text("a file, and no folder")
    settings = make_settings(tmp_path, checkpoint_file=tmp_path / "taken" / "checkpoints.jsonl")
    sign_more(db, now, settings)

    with caplog.at_level(logging.WARNING):
        told = sinks.tend(db, settings, now=now)

    assert len(told) == 1
    assert "cannot be written" in told[0]
    assert told[0] in caplog.text


def test_a_checkpoint_that_somebody_edited_is_said(db: Database, now: datetime, settings: Settings) -> None:
    sign_more(db, now, settings)
    edit = "UPDATE event SET body = replace(body, '\"root\":\"', '\"root\":\"x') WHERE type = 'checkpoint.signed'"
    forge(db, now, lambda tx, *_: tx.execute(edit), 0, Random())

    assert "a checkpoint cannot be read: root is not" in sinks.tend(db, settings, now=now)[0]


def test_a_full_disk_is_said(db: Database, now: datetime, settings: Settings) -> None:
    sign_more(db, now, settings)

    with pytest.raises(SinkFailed, match="/dev/full cannot be written: No space left"):
        append_to_file(db, Path("/dev/full"))


def test_no_file_and_no_address_are_no_fault(db: Database, now: datetime, tmp_path: Path) -> None:
    settings = make_settings(tmp_path, checkpoint_file=None)
    sign_more(db, now, settings)

    assert sinks.tend(db, settings, now=now) == []


# --- by HTTP ---------------------------------------------------------------------------------------------------------


class Post:
    """Takes documents, or refuses them."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self.refusing = False
        self.during: Callable[[], object] | None = None

    def __call__(self, url: str, body: bytes, *, allowed: object) -> None:  # noqa: ARG002 - given by name
        assert url == URL
        if self.during is not None:
            self.during()
        if self.refusing:
            raise NotSent("audit.example answered 500")
        self.taken.append(json.loads(body))


def test_each_is_sent_once_and_in_order(db: Database, now: datetime, settings: Settings) -> None:
    post = Post()
    signed = [sign_more(db, now, settings) for _ in range(3)]

    assert send_pending(db, URL, (), now=now, post=post) == 3
    assert send_pending(db, URL, (), now=now, post=post) == 0
    signed.append(sign_more(db, now, settings))
    assert send_pending(db, URL, (), now=now, post=post) == 1

    assert post.taken == [one.to_json() for one in signed]


def test_one_that_refuses_is_asked_again_later_and_later_and_loses_nothing(
    db: Database, now: datetime, settings: Settings
) -> None:
    post = Post()
    post.refusing = True
    signed = [sign_more(db, now, settings) for _ in range(2)]

    for wait in (5, 10, 20):
        with pytest.raises(SinkFailed, match="answered 500"):
            send_pending(db, URL, (), now=now, post=post)
        almost = now + timedelta(seconds=wait - 1)
        assert send_pending(db, URL, (), now=almost, post=post) == 0
        now += timedelta(seconds=wait)
    post.refusing = False

    assert send_pending(db, URL, (), now=now, post=post) == 2
    assert post.taken == [one.to_json() for one in signed]


def test_two_processes_do_not_send_the_same(db: Database, now: datetime, settings: Settings) -> None:
    post, other = Post(), Post()
    sign_more(db, now, settings)
    post.during = lambda: send_pending(db, URL, (), now=now, post=other)

    assert send_pending(db, URL, (), now=now, post=post) == 1
    assert other.taken == []


def test_what_was_being_sent_when_a_process_was_killed_is_sent_again(
    db: Database, now: datetime, settings: Settings
) -> None:
    post = Post()
    signed = sign_more(db, now, settings)

    def die() -> None:
        raise KeyboardInterrupt

    post.during = die
    with pytest.raises(KeyboardInterrupt):
        send_pending(db, URL, (), now=now, post=post)
    post.during = None

    assert send_pending(db, URL, (), now=now + sinks.CLAIM, post=post) == 1
    assert post.taken == [signed.to_json()]


def test_an_address_is_not_told_in_the_database(db: Database, now: datetime, settings: Settings) -> None:
    sign_more(db, now, settings)
    send_pending(db, URL, (), now=now, post=Post())

    with db.read() as snapshot:
        rows = snapshot.all("SELECT name, error FROM sink")
    assert rows == [(sinks.name_of(URL), None)]
    assert "secret" not in str(rows)
    assert KEY not in str(rows)
