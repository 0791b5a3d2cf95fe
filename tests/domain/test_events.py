# SPDX-License-Identifier: Apache-2.0
"""Is every event sealed in one form, and does every change to a stored one show?"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.events import (
    GENESIS,
    Actor,
    ActorKind,
    Draft,
    Entry,
    Event,
    EventType,
    Subject,
    SubjectKind,
    SubjectRow,
    canonical,
    hash_of,
    seal,
    unseal,
    verify_entry,
)
from tests.clock import NOON

INTS = st.integers(min_value=-(2**63), max_value=2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | INTS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
DATA = st.dictionaries(TEXTS, VALUES, max_size=4)


def make_event(data: Mapping[str, Any] | None = None, **changes: Any) -> Event:
    draft = Draft(
        type=EventType.QUARANTINE_OPENED,
        actor=Actor(ActorKind.OPERATOR, "alice"),
        subjects=(Subject(SubjectKind.DEVICE, "d1"), Subject(SubjectKind.NODE, "node-a")),
        data={"serial": "0322218049033", "node": "node-a"} if data is None else data,
    )
    place: dict[str, Any] = {"sequence": 7, "at": NOON, "ordinals": (3, 1), "prev_hash": GENESIS}
    return seal(draft, **{**place, **changes})


def entry_of(event: Event, **changes: Any) -> Entry:
    names = [field.name for field in dataclasses.fields(Entry)]
    return dataclasses.replace(Entry(**{name: getattr(event, name) for name in names}), **changes)


def rehashed(body: str) -> dict[str, str]:
    """A forger can hash: only what the body and the chain say can give him away."""
    return {"body": body, "hash": hash_of(GENESIS, body)}


def test_the_body_is_written_exactly_so() -> None:
    event = make_event({"b": [1, None, True], "a": "é"})

    assert event.body == (
        '{"actor":{"kind":"operator","name":"alice"},"at":"' + event.to_json()["at"] + '",'
        '"data":{"a":"é","b":[1,null,true]},"sequence":7,'
        '"subjects":[{"id":"d1","kind":"device","ordinal":3},{"id":"node-a","kind":"node","ordinal":1}],'
        '"type":"quarantine.opened","v":1}'
    )
    assert event.hash == hashlib.sha256(("0" * 64 + event.body).encode()).hexdigest()


@given(VALUES)
def test_the_canonical_form_says_the_same_and_is_its_own_canonical_form(value: Any) -> None:
    text = canonical(value)

    assert json.loads(text) == value
    assert canonical(json.loads(text)) == text


@given(DATA)
def test_the_order_of_keys_does_not_matter(data: dict[str, Any]) -> None:
    assert canonical(dict(reversed(data.items()))) == canonical(data)


def test_any_mapping_and_tuple_is_written_as_object_and_array() -> None:
    assert canonical(MappingProxyType({"kinds": ("gpu", EventType.NODE_BOOTED)})) == '{"kinds":["gpu","node.booted"]}'


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        float("nan"),
        2**63,
        -(2**63) - 1,
        "\ud800",
        {"a": {"b": [0.5]}},
        {1: "a"},
        {"\udfff": 1},
        NOON,
        b"x",
        {1, 2},
    ],
    ids=repr,
)
def test_what_has_no_certain_text_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        canonical(value)


def test_what_is_nested_without_end_is_refused() -> None:
    value: Any = []
    for _ in range(5000):
        value = [value]

    with pytest.raises(ValueError, match="too deeply"):
        canonical(value)


def test_the_complaint_says_where_it_stands() -> None:
    with pytest.raises(ValueError, match="/data/readings/1 is a float"):
        make_event({"readings": [1, 0.5]})


@given(DATA)
def test_a_stored_event_comes_back_as_it_was_and_verifies(data: dict[str, Any]) -> None:
    event = make_event(data)

    assert unseal(entry_of(event)) == event
    rows = [(one.kind, one.id, ordinal) for one, ordinal in reversed(event.subjects)]
    assert verify_entry(entry_of(event), expected_sequence=7, expected_prev_hash=GENESIS, subjects=rows) is None


def test_the_answer_has_the_shape_of_the_api() -> None:
    event = make_event()

    assert event.to_json() == {
        "sequence": 7,
        "at": "2026-11-29T12:00:00.000000Z",
        "type": "quarantine.opened",
        "actor": {"kind": "operator", "name": "alice"},
        "subjects": [{"id": "d1", "kind": "device", "ordinal": 3}, {"id": "node-a", "kind": "node", "ordinal": 1}],
        "data": {"serial": "0322218049033", "node": "node-a"},
        "prev_hash": GENESIS,
        "hash": event.hash,
    }


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"sequence": 8}, "sequence differs"),
        ({"at": NOON + timedelta(seconds=1)}, "at differs"),
        ({"type": "quarantine.released"}, "type differs"),
        ({"prev_hash": "1" * 64}, "hash does not fit"),
        ({"hash": "1" * 64}, "hash does not fit"),
        ({"body": "{}"}, "hash does not fit"),
        (rehashed("[]"), "cannot be read"),
        (rehashed("{"), "cannot be read"),
        (rehashed('{"v": 1}'), "not in canonical form"),
        (rehashed('{"v":1,"v":1}'), "not in canonical form"),
        (rehashed('{"v":1.5}'), "cannot be read"),
        (rehashed('{"v":2}'), "v differs"),
    ],
)
def test_a_changed_column_shows(changes: dict[str, Any], complaint: str) -> None:
    assert complaint in (verify_entry(entry_of(make_event(), **changes)) or "")


@pytest.mark.parametrize("part", ["actor", "data", "subjects"])
def test_a_body_without_one_of_its_parts_cannot_be_read(part: str) -> None:
    parsed = json.loads(make_event().body)
    del parsed[part]

    complaint = verify_entry(entry_of(make_event(), **rehashed(canonical(parsed))))

    assert complaint == f"the body cannot be read: the body of event 7 lacks '{part}'"


def test_a_changed_word_in_the_body_shows() -> None:
    event = make_event()

    assert verify_entry(entry_of(event, body=event.body.replace("alice", "bobby"))) is not None


def test_an_entry_taken_out_of_the_chain_shows_at_the_next_one() -> None:
    entry = entry_of(make_event())

    assert verify_entry(entry, expected_sequence=6) == "sequence 7 stands where 6 belongs"
    assert verify_entry(entry, expected_prev_hash="2" * 64) == "prev_hash is not the hash of the entry before"


@pytest.mark.parametrize(
    "rows",
    [
        (),
        (("device", "d1", 3),),
        (("device", "d1", 4), ("node", "node-a", 1)),
        (("device", "d2", 3), ("node", "node-a", 1)),
    ],
)
def test_changed_subject_rows_show(rows: tuple[SubjectRow, ...]) -> None:
    assert verify_entry(entry_of(make_event()), subjects=rows) == "the subject rows differ from the body"


def test_a_type_of_a_later_release_can_still_be_read() -> None:
    event = make_event()
    body = event.body.replace("quarantine.opened", "repair.claimed")
    entry = entry_of(event, type="repair.claimed", body=body, hash=hash_of(GENESIS, body))

    assert unseal(entry).type == "repair.claimed"
    assert verify_entry(entry) is None


def test_a_subject_named_twice_takes_one_number() -> None:
    node = Subject("node", "node-a")

    assert Draft(EventType.NODE_BOOTED, Actor(ActorKind.NODE, "node-a"), (node, node)).subjects == (node,)


def test_every_subject_needs_its_number() -> None:
    with pytest.raises(ValueError, match="shorter"):
        make_event(ordinals=(1,))


def test_every_type_is_a_noun_and_a_participle() -> None:
    assert all(kind.count(".") == 1 and kind == kind.lower() for kind in EventType)


def test_an_actor_is_read_as_it_is_written() -> None:
    rule = Actor(ActorKind.RULE, "xid:79")

    assert str(rule) == "rule:xid:79"
    assert Actor.parse("rule:xid:79") == rule


@pytest.mark.parametrize("text", ["", "alice", "operator:", "robot:r2"])
def test_what_names_no_actor_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Actor.parse(text)
