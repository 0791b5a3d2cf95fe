# SPDX-License-Identifier: Apache-2.0
"""Is the head signed as it is, in time, with the right key, and never a history that somebody has changed?"""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from registry.config import Settings
from registry.domain.checkpoints import Checkpoint, KeyChain, Rotation, UnknownKey, is_due, parse_statement
from registry.domain.errors import InvalidField, NotFound
from registry.domain.events import EventType
from registry.domain.merkle import inclusion_path, leaf_of, root_by_inclusion, root_of
from registry.services import checkpoints, keys, rotation
from registry.services.audit import Held, own_key, read_held, verify
from registry.services.signing import Signer, is_signed
from registry.services.sinks import write_line
from registry.store import history, subtrees
from registry.store.checkpoints import list_rotations
from registry.store.database import Database
from registry.store.migrations import NotReady
from tests.services.signed import KEY, PRIVATE, make_settings, sign, write_many
from tests.store.test_audit_verify import disarm

OTHER = Signer(b"\x07" * 32)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return make_settings(tmp_path)


def leaves(db: Database) -> list[bytes]:
    with db.read() as snapshot:
        return [leaf_of(event.hash) for event in history.stream_events(snapshot)]


@pytest.mark.parametrize("count", [1, 255, 256, 257, 700])
def test_the_root_that_is_signed_is_that_of_all_entries(
    db: Database, now: datetime, settings: Settings, count: int
) -> None:
    write_many(db, now, count)

    signed = sign(db, now, settings)

    entries = leaves(db)
    assert (signed.sequence, signed.root) == (count, root_of(entries[:count]).hex())
    assert is_signed(signed.key, signed.signature, signed.text())
    assert (signed.key, len(entries)) == (KEY, count + 1)
    assert checkpoints.show_newest(db) == signed.to_json()


def test_what_is_signed_is_canonical_json_without_the_signature(
    db: Database, now: datetime, settings: Settings
) -> None:
    signed = sign(db, now, settings)

    assert signed.text() == (
        f'{{"hash":"{signed.hash}","key":"{KEY}","root":"{signed.root}","sequence":0,'
        '"signed_at":"2026-11-29T12:00:00.000000Z"}'
    )


def test_there_is_none_before_the_first(db: Database) -> None:
    with pytest.raises(NotFound, match="No checkpoint"):
        checkpoints.show_newest(db)


def test_subtrees_are_kept_piece_by_piece_and_lead_to_the_same_hashes(
    db: Database, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subtrees, "PIECE", 2 * subtrees.BLOCK)
    write_many(db, now, 1300)

    checkpoints.keep_subtrees(db, now=now)

    entries = leaves(db)
    with db.read() as snapshot:
        kept = list(subtrees.iterate_rows(snapshot))
        tree = subtrees.Tree(snapshot)
        assert tree.root(1300) == root_of(entries)
        for index in (0, 255, 256, 1024, 1299):
            path = inclusion_path(index, 1300, tree.hash_of)
            assert root_by_inclusion(entries[index], index, 1300, path) == root_of(entries)
    assert [(upto, level) for upto, level, _ in kept] == [
        (256, 8), (512, 8), (512, 9), (768, 8), (1024, 8), (1024, 9), (1024, 10), (1280, 8),
    ]  # fmt: skip
    assert all(root_of(entries[upto - (1 << level) : upto]).hex() == hash_ for upto, level, hash_ in kept)


def test_a_history_that_somebody_changed_is_not_signed(db: Database, now: datetime, settings: Settings) -> None:
    write_many(db, now, 5)
    sign(db, now, settings)
    with db.write(now) as transaction:
        disarm(transaction)
        transaction.execute("UPDATE event SET hash = ? WHERE sequence = 3", ("a" * 64,))

    with pytest.raises(NotReady, match="does not go on from the checkpoint of entry 5"):
        sign(db, now, settings)


def test_a_key_that_is_not_of_this_database_signs_nothing(db: Database, now: datetime, settings: Settings) -> None:
    keys.check_fingerprints(db, settings, now)

    with pytest.raises(NotReady, match="handed over"):
        sign(db, now, replace(settings, signing_key="cd" * 32))
    with pytest.raises(NotReady, match="missing"):
        sign(db, now, replace(settings, signing_key=None))


@pytest.mark.parametrize(
    ("count", "waited", "expected"),
    [(0, 1000, False), (1, 9, False), (1, 10, True), (9, 0, False), (10, 0, True)],
)
def test_one_is_due_when_many_wait_or_one_waits_long(now: datetime, count: int, waited: int, *, expected: bool) -> None:
    oldest = now if count else None

    assert is_due(count, oldest, now + timedelta(seconds=waited), events=10, seconds=10) is expected


def test_it_is_signed_by_itself_when_it_is_due_and_not_because_of_itself(
    db: Database, now: datetime, settings: Settings
) -> None:
    settings = replace(settings, checkpoint_events=3, checkpoint_seconds=60)
    write_many(db, now, 2)

    assert checkpoints.sign_if_due(db, settings, now=now + timedelta(seconds=59)) is None
    signed = checkpoints.sign_if_due(db, settings, now=now + timedelta(seconds=60))
    assert signed is not None
    assert signed.sequence == 2
    assert checkpoints.sign_if_due(db, settings, now=now + timedelta(days=9)) is None
    write_many(db, now + timedelta(days=9), 3)
    again = checkpoints.sign_if_due(db, settings, now=now + timedelta(days=9))
    assert again is not None
    assert again.sequence == 6


def test_a_server_that_cannot_sign_says_so_and_goes_on(
    db: Database, now: datetime, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    write_many(db, now, 1)

    checkpoints.keep_signed(db, replace(settings, signing_key="no key"), now=now + timedelta(days=1))

    assert "no checkpoint is signed: The signing key is not 32 bytes" in caplog.text


# --- another key takes over ----------------------------------------------------------------------------------


def test_both_keys_sign_the_rotation_and_the_new_one_signs_from_then_on(
    db: Database, now: datetime, settings: Settings
) -> None:
    keys.check_fingerprints(db, settings, now)
    write_many(db, now, 3)
    before = sign(db, now, settings)

    done = rotation.rotate(db, settings, b"\x07" * 32, now=now)

    assert done.is_signed(is_signed)
    assert (done.old_key, done.new_key, done.sequence) == (KEY, OTHER.key, 4)
    with pytest.raises(NotReady, match="handed over"):
        sign(db, now, settings)
    renewed = replace(settings, signing_key="07" * 32)
    after = sign(db, now, renewed)
    for key in (KEY, OTHER.key):
        found = verify(db, held=Held((before, after)), key=key)
        assert (found["ok"], found["checkpoints"]) == (True, 4)
    with db.read() as snapshot:
        assert list_rotations(snapshot) == [done]
        recorded = history.page_events(snapshot, types=[EventType.KEY_ROTATED])
    assert parse_statement(recorded[0].data) == done


def test_a_key_is_not_handed_to_itself(db: Database, now: datetime, settings: Settings) -> None:
    with pytest.raises(ValueError, match="the old one"):
        rotation.rotate(db, settings, bytes.fromhex(PRIVATE), now=now)


def make_rotation(old: Signer, new: Signer, sequence: int, *, new_signs: bool = True) -> Rotation:
    draft = Rotation(sequence, "0" * 64, "2026-11-29T12:00:00.000000Z", old.key, new.key)
    signature = (new if new_signs else old).sign(draft.text())
    return replace(draft, old_signature=old.sign(draft.text()), new_signature=signature)


def make_checkpoint(signer: Signer, sequence: int) -> Checkpoint:
    draft = Checkpoint(sequence, "1" * 64, "2" * 64, "2026-11-29T12:00:00.000000Z", signer.key)
    return replace(draft, signature=signer.sign(draft.text()))


ONE, TWO, THREE = (Signer(bytes([number]) * 32) for number in (1, 2, 3))
CHAIN = (make_rotation(ONE, TWO, 10), make_rotation(TWO, THREE, 20))


@pytest.mark.parametrize("anchor", [ONE, TWO, THREE], ids=["first", "second", "third"])
def test_each_key_vouches_for_the_others_in_their_own_time(anchor: Signer) -> None:
    chain = KeyChain(anchor.key, reversed(CHAIN), is_signed)

    for signer, sequence in ((ONE, 0), (ONE, 10), (TWO, 10), (TWO, 20), (THREE, 20), (THREE, 99)):
        chain.check(make_checkpoint(signer, sequence))
    for signer, sequence in ((ONE, 11), (TWO, 9), (TWO, 21), (THREE, 19)):
        with pytest.raises(UnknownKey, match="another time"):
            chain.check(make_checkpoint(signer, sequence))


def test_a_rotation_that_one_key_did_not_sign_vouches_for_nothing() -> None:
    chain = KeyChain(ONE.key, [make_rotation(ONE, TWO, 10, new_signs=False)], is_signed)

    with pytest.raises(UnknownKey, match="nothing vouches for"):
        chain.check(make_checkpoint(TWO, 12))


def test_a_changed_checkpoint_is_not_signed() -> None:
    chain = KeyChain(ONE.key, (), is_signed)

    with pytest.raises(UnknownKey, match="signature"):
        chain.check(replace(make_checkpoint(ONE, 3), root="3" * 64))


@pytest.mark.parametrize(
    "rotations",
    [
        (make_rotation(ONE, TWO, 10), make_rotation(ONE, THREE, 11)),
        (make_rotation(ONE, THREE, 10), make_rotation(TWO, THREE, 11)),
        (make_rotation(ONE, TWO, 10), make_rotation(TWO, ONE, 11)),
    ],
    ids=["two heirs", "two ancestors", "in a circle"],
)
def test_keys_that_cannot_be_told_apart_are_refused(rotations: tuple[Rotation, ...]) -> None:
    with pytest.raises(UnknownKey):
        KeyChain(ONE.key if rotations[1].new_key != THREE.key else THREE.key, rotations, is_signed)


def test_a_kept_key_is_replaced_and_a_rotation_that_broke_off_is_finished(
    db: Database, now: datetime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(tmp_path, signing_key=None, database_url="sqlite:////nowhere")
    keys.ensure_keys(settings)
    keys.check_fingerprints(db, settings, now)
    first = own_key(settings)

    done = rotation.rotate_kept(db, settings, now=now)

    assert (done.old_key, done.new_key) == (first, own_key(settings))
    assert (tmp_path / keys.FILES[keys.SIGNING]).stat().st_mode & 0o777 == 0o600
    assert not rotation.finish(db, settings)
    aside = tmp_path / f"{keys.FILES[keys.SIGNING]}.{done.old_key[:16]}"
    assert Signer(keys.read_key(aside)).key == first

    monkeypatch.setattr(rotation, "_put_in_place", lambda _: None)
    broken_off = rotation.rotate_kept(db, settings, now=now)
    monkeypatch.undo()
    assert own_key(settings) == done.new_key
    assert rotation.finish(db, settings)
    assert own_key(settings) == broken_off.new_key
    keys.check_fingerprints(db, settings, now)


def test_a_key_that_was_made_and_not_handed_over_to_is_left_alone(db: Database, now: datetime, tmp_path: Path) -> None:
    settings = make_settings(tmp_path, signing_key=None)
    keys.ensure_keys(settings)
    keys.check_fingerprints(db, settings, now)
    keys.make_key(rotation.waiting_file(settings))
    before = own_key(settings)

    assert not rotation.finish(db, settings)
    assert own_key(settings) == before


# --- what is read from outside -------------------------------------------------------------------------------


def test_a_file_of_one_checkpoint_or_of_many_lines_is_read() -> None:
    one, two = make_checkpoint(ONE, 1), make_checkpoint(TWO, 12)
    many = write_line(one) + write_line(CHAIN[0]) + write_line(two) + '\n{"sequence": 13, "ha'

    assert read_held(write_line(one).replace(",", ",\n  ")) == Held((one,))
    assert read_held(many) == Held((one, two), (CHAIN[0],), 1)


@pytest.mark.parametrize("text", ["", "nonsense", "{}", '{"sequence": 1}', write_line(CHAIN[0])])
def test_a_file_without_a_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(InvalidField, match="no checkpoint"):
        read_held(text)


@pytest.mark.parametrize(
    "change",
    [
        {"sequence": -1},
        {"sequence": True},
        {"hash": "A" * 64},
        {"root": 7},
        {"key": "1" * 63},
        {"signature": "0" * 64},
        {"signed_at": "yesterday"},
        {"signed_at": 7},
        {"more": 1},
    ],
)
def test_a_document_that_is_no_checkpoint_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"sequence|digits|time|object"):
        Checkpoint.parse({**make_checkpoint(ONE, 1).to_json(), **change})


def test_a_held_checkpoint_of_a_stranger_is_refused(db: Database, now: datetime, settings: Settings) -> None:
    write_many(db, now, 3)
    signed = sign(db, now, settings)

    with pytest.raises(InvalidField, match="nothing vouches for"):
        verify(db, held=Held((make_checkpoint(TWO, 3),)), key=KEY)
    with pytest.raises(InvalidField, match="no key"):
        verify(db, held=Held((signed,)), key=None)


def test_what_is_signed_while_others_write_covers_what_it_says(db: Database, now: datetime, settings: Settings) -> None:
    held: list[Checkpoint] = []

    def write(count: int) -> None:
        for _ in range(count):
            write_many(db, now, 1)
        db.close()

    writers = [threading.Thread(target=write, args=(40,)) for _ in range(3)]
    for one in writers:
        one.start()
    while any(one.is_alive() for one in writers):
        held.append(sign(db, now, settings))
    for one in writers:
        one.join()

    found = verify(db, held=Held(tuple(held)), key=KEY)
    assert (found["ok"], found["checkpoints"], found["entries"]) == (True, 2 * len(held), 120 + len(held))
