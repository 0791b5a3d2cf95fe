# SPDX-License-Identifier: Apache-2.0
"""Does a service that lost a part of its history admit nobody until somebody takes note, and then again?"""

from __future__ import annotations

import pytest

from registry.domain.actors import Actor, ActorKind
from registry.domain.errors import NotOpen
from registry.domain.safe_mode import Head, LossCause
from registry.services.admission import preview
from registry.services.safe_mode import acknowledge, assess, list_standing
from registry.store import history
from tests.fleet import Fleet, gpu, serial

ROOT = Actor(ActorKind.OPERATOR, "root")
OTHERS = tuple(gpu(number) for number in range(10, 14))
LATER = Head(10_000, "f" * 64)
"""Seen outside, and not in here."""


def newest(fleet: Fleet) -> Head:
    with fleet.db.read() as snapshot:
        found = history.find_head(snapshot)
    assert found is not None
    return found


def suspend(fleet: Fleet, head: Head = LATER) -> None:
    assert assess(fleet.db, [head], now=fleet.clock.now) is not None


def test_every_decision_says_so_and_reports_are_still_kept(fleet: Fleet) -> None:
    assert fleet.admit()["admission"]["admitted"]

    suspend(fleet)

    assert fleet.codes() == ["service_safe_mode"]
    assert fleet.decide("node-x").admitted is False
    fleet.clock.advance(30)
    answer = fleet.report()
    assert [one["code"] for one in answer["admission"]["reasons"]] == ["service_safe_mode"]
    assert answer["pass"]["have"] == 2


def test_it_stands_beside_the_other_reasons_as_the_last(fleet: Fleet) -> None:
    fleet.report()
    suspend(fleet)

    assert fleet.codes() == ["passes_insufficient", "service_safe_mode"]


def test_hardware_alone_is_refused_too(fleet: Fleet) -> None:
    asked = [{"identifiers": [{"kind": "gpu", "type": "serial", "value": serial(0)}]}]
    before = preview(fleet.db, asked, policy=fleet.policy, now=fleet.clock.now)
    suspend(fleet)

    after = preview(fleet.db, asked, policy=fleet.policy, now=fleet.clock.now)

    assert before[0]["admitted"]
    assert [one["code"] for one in after[0]["reasons"]] == ["service_safe_mode"]


def test_a_head_that_stands_in_the_records_is_no_reason(fleet: Fleet) -> None:
    fleet.admit()
    seen = newest(fleet)
    fleet.report("node-b", OTHERS, instance="i-2")

    assert assess(fleet.db, [seen], now=fleet.clock.now) is None
    assert assess(fleet.db, [], now=fleet.clock.now) is None
    assert fleet.decide().admitted


def test_another_history_at_a_known_place_is_a_reason(fleet: Fleet) -> None:
    fleet.admit()
    good = newest(fleet)
    fleet.clock.advance(30)
    fleet.report("node-b", OTHERS, instance="i-2")

    alarm = assess(fleet.db, [Head(good.sequence + 1, "e" * 64), good], now=fleet.clock.now)

    assert alarm is not None
    assert (alarm.cause, alarm.lost_from, alarm.lost_to) == (
        LossCause.OTHER_HISTORY,
        good.sequence + 1,
        good.sequence + 1,
    )


def test_who_took_note_stands_in_the_history_with_what_is_lost(fleet: Fleet) -> None:
    fleet.admit()
    ends = newest(fleet).sequence
    suspend(fleet)

    answer = acknowledge(fleet.db, reason="holds opened anew", actor=ROOT, now=fleet.clock.now)

    lost = {"cause": "ends_early", "from": ends + 1, "to": LATER.sequence}
    with fleet.db.read() as snapshot:
        suspended, noted = history.page_events(snapshot, subjects=[("service", "pratique")])[-2:]
        assert list_standing(snapshot) == ()
    assert (suspended.type, suspended.data) == ("service.suspended", {**lost, "checkpoint": LATER.hash})
    assert (noted.type, noted.actor) == ("service.acknowledged", ROOT)
    assert noted.data == {"reason": "holds opened anew", "lost": [lost]}
    assert answer["lost"][0]["to"] == LATER.sequence
    assert fleet.decide().admitted


def test_what_was_noted_is_not_asked_about_again_and_another_loss_is(fleet: Fleet) -> None:
    fleet.admit()
    suspend(fleet)
    assert assess(fleet.db, [LATER], now=fleet.clock.now) is None
    acknowledge(fleet.db, reason="seen", actor=ROOT, now=fleet.clock.now)

    assert assess(fleet.db, [LATER], now=fleet.clock.now) is None
    assert fleet.decide().admitted
    suspend(fleet, Head(20_000, "d" * 64))
    assert not fleet.decide().admitted


def test_one_note_ends_every_alarm(fleet: Fleet) -> None:
    fleet.admit()
    suspend(fleet)
    suspend(fleet, Head(20_000, "d" * 64))

    answer = acknowledge(fleet.db, reason="seen", actor=ROOT, now=fleet.clock.now)

    assert [one["to"] for one in answer["lost"]] == [20_000, 10_000]
    assert fleet.decide().admitted


def test_there_is_nothing_to_take_note_of_when_all_is_well(fleet: Fleet) -> None:
    with pytest.raises(NotOpen, match="safe mode"):
        acknowledge(fleet.db, reason="seen", actor=ROOT, now=fleet.clock.now)
