# SPDX-License-Identifier: Apache-2.0
"""Can a person see what is to be repaired and what it waits for, take it up, and stop all of it?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from flask import Flask

from api.context import standing
from registry.config import Settings
from registry.domain.budget import Suspicion
from registry.services.repairs import claim_repair
from registry.store.repairs import save_suspicion
from tests.clock import Clock
from tests.console.visitor import Visitor, words_of
from tests.fleet import ALICE, Fleet, serial
from tests.services.test_repairs import EAGER, failing, listed, work, world


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """The settings, with a policy that has no patience."""
    return replace(settings, policy_as_written=EAGER)


@pytest.fixture
def fleet(app: Flask, clock: Clock) -> Fleet:
    """The records of the application: GPU 4 of node-1 asks for a reset, which is ready."""
    known = Fleet(standing(app).database, clock, EAGER)
    known.report(**world(1, checks=failing(serial(4))))
    work(known)
    return known


def order(fleet: Fleet) -> dict[str, Any]:
    (found,) = listed(fleet)
    return found


def test_nothing_to_repair_is_said_and_explained(operator: Visitor) -> None:
    shown = operator.page("/console/repairs")
    assert "Nothing waits for a repair." in shown
    assert "the fleet 0 1 0 ✓ 1 left" in shown


def test_the_budget_and_each_order_are_shown(operator: Visitor, fleet: Fleet) -> None:
    shown = operator.page("/console/repairs")
    assert "the fleet 1 1 1 ▲ used up" in shown
    assert "profile g5.12xlarge 1 1 1" in shown
    assert "no zone 1 1 1" in shown
    assert "Ready to be claimed" in shown
    assert "reset gpu" in shown
    assert serial(4) in shown
    assert "gpu.ecc" in shown


def test_an_order_that_waits_says_for_what(operator: Visitor, fleet: Fleet) -> None:
    fleet.report(**world(2, checks=failing(serial(8))))
    work(fleet)
    shown = operator.page("/console/repairs")
    assert "Waiting" in shown
    (waiting,) = listed(fleet, state="planned")
    assert str(waiting["waits_for"]) in shown


def test_an_order_is_claimed_renewed_and_said_to_be_done(operator: Visitor, fleet: Fleet, clock: Clock) -> None:
    address = f"/console/repairs/{order(fleet)['id']}"
    assert "It is yours until its lease runs out" in operator.page(address)
    assert "Reset gpu on node-1 is yours until" in operator.act(f"{address}/claim")
    before = order(fleet)["lease_until"]
    clock.advance(60)
    operator.act(f"{address}/claim")
    assert order(fleet)["lease_until"] > before
    told = operator.act(f"{address}/complete", {"outcome": "done", "token": order(fleet)["token"]})
    assert "Reset gpu on node-1 is done." in told
    assert (order(fleet)["state"], order(fleet)["claimed_by"]) == ("done", "operator:alice")
    assert "It is over" in operator.page(address)


def test_what_could_not_be_done_needs_a_reason(operator: Visitor, fleet: Fleet) -> None:
    address = f"/console/repairs/{order(fleet)['id']}"
    operator.act(f"{address}/claim")
    form = {"outcome": "failed", "token": "1"}
    refused = operator.post(f"{address}/complete", form)
    assert refused.status_code == 422
    assert "say what stood in the way" in words_of(refused)
    operator.act(f"{address}/complete", {**form, "reason": "the slot is out of reach"})
    assert (order(fleet)["state"], order(fleet)["detail"]) == ("failed", "the slot is out of reach")


@pytest.mark.parametrize("shown", ["", "x", "9", "-1"])
def test_the_word_of_an_older_claim_is_refused(operator: Visitor, fleet: Fleet, shown: str) -> None:
    address = f"/console/repairs/{order(fleet)['id']}"
    operator.act(f"{address}/claim")
    assert operator.post(f"{address}/complete", {"outcome": "done", "token": shown}).status_code in {409, 422}
    assert order(fleet)["state"] == "claimed"


def test_what_another_has_claimed_is_theirs(operator: Visitor, admin: Visitor, fleet: Fleet) -> None:
    address = f"/console/repairs/{order(fleet)['id']}"
    admin.act(f"{address}/claim")
    shown = operator.page(address)
    assert "Claimed by operator:root until" in shown
    assert "How did it go?" not in shown
    assert operator.post(f"{address}/claim").status_code == 409


def test_giving_hardware_away_asks_for_its_serial(operator: Visitor, fleet: Fleet) -> None:
    found = order(fleet)
    with fleet.db.write(fleet.clock.now) as tx:
        tx.execute("UPDATE repair SET action = 'return_device' WHERE id = ?", (found["id"],))
    address = f"/console/repairs/{found['id']}"
    assert f"Type the serial {serial(4)} again" in operator.page(address)
    refused = operator.post(f"{address}/claim", {"retyped": serial(5)})
    assert refused.status_code == 422
    assert fleet.open_holds() == []


def test_what_is_wrong_with_one_form_is_not_said_of_another(operator: Visitor, fleet: Fleet) -> None:
    address = f"/console/repairs/{order(fleet)['id']}"
    operator.act(f"{address}/claim")
    form = {"form": "complete-", "outcome": "failed", "token": "1", "reason": ""}

    told = operator.post(f"{address}/complete", form).text

    assert told.count('<small class="wrong"') == 1
    assert 'id="complete-reason-wrong"' in told
    assert told.count("autofocus") == 1, "whoever has to type again need not look for where"
    for key in ("complete-", "cancel-"):
        assert f'name="form" value="{key}"' in told


def test_an_order_is_cancelled_with_a_reason(operator: Visitor, fleet: Fleet) -> None:
    address = f"/console/repairs/{order(fleet)['id']}"
    assert operator.post(f"{address}/cancel", {"outcome": "by_person"}).status_code == 422
    assert operator.post(f"{address}/cancel", {"outcome": "given_up", "reason": "x"}).status_code == 422
    told = operator.act(f"{address}/cancel", {"outcome": "by_person", "reason": "the board is on its way"})
    assert "Reset gpu on node-1 is cancelled." in told
    assert "the board is on its way" in operator.page("/console/repairs?state=cancelled")
    assert operator.post(f"{address}/cancel", {"outcome": "by_person", "reason": "x"}).status_code == 409


def test_all_repairs_are_stopped_and_go_on_by_a_persons_word(operator: Visitor, fleet: Fleet) -> None:
    assert operator.post("/console/repairs/stop").status_code == 422
    shown = operator.act("/console/repairs/stop", {"reason": "a <storm>"})
    assert "Repairs are stopped." in shown
    assert "by operator:alice: a <storm>" in shown
    assert "Stop all repairs" not in shown
    assert operator.post("/console/repairs/stop", {"reason": "again"}).status_code == 409
    assert operator.post(f"/console/repairs/{order(fleet)['id']}/claim").status_code == 409
    assert "Repairs go on" in operator.act("/console/repairs/resume", {"reason": "it is over"})
    assert operator.post("/console/repairs/resume", {"reason": "again"}).status_code == 409


def test_a_check_that_is_suspected_is_believed_by_a_persons_word(operator: Visitor, fleet: Fleet) -> None:
    with fleet.db.write(fleet.clock.now) as tx:
        save_suspicion(tx, Suspicion("gpu.ecc", fleet.clock.now, 40, 10))
    shown = operator.page("/console/repairs")
    assert "gpu.ecc since" in shown
    assert "40 nodes turned bad at once, and at most 10 are believed" in shown
    told = operator.act("/console/repairs/resume", {"condition": "gpu.ecc", "reason": "a real power cut"})
    assert "The check gpu.ecc is believed again" in told
    assert "40 nodes turned bad" not in told


def test_filters_stand_in_the_address(operator: Visitor, fleet: Fleet) -> None:
    for asked in ("state=ready", "node=node-1", f"device={serial(4)}", "condition=gpu.ecc", "action=reset_gpu"):
        assert "reset gpu" in operator.page(f"/console/repairs?{asked}")
    assert "No repair is like this." in operator.page("/console/repairs?node=node-2")
    assert operator.get("/console/repairs?state=lost").status_code == 422
    assert operator.get("/console/repairs/nobody").status_code == 404


def test_an_auditor_sees_all_and_changes_nothing(auditor: Visitor, fleet: Fleet) -> None:
    address = f"/console/repairs/{order(fleet)['id']}"
    assert 'method="post" autocomplete' not in auditor.get("/console/repairs").text
    assert "An operator can claim or cancel it." in auditor.page(address)
    for path in (f"{address}/claim", f"{address}/cancel", "/console/repairs/stop", "/console/repairs/resume"):
        assert auditor.post(path, {"reason": "x", "outcome": "by_person"}).status_code == 403


def test_one_who_could_not_be_asked_is_claimed_by_a_program(operator: Visitor, fleet: Fleet) -> None:
    found = order(fleet)
    claim_repair(fleet.db, found["id"], holder="robot-1", actor=ALICE, policy=EAGER, now=fleet.clock.now)
    assert "Claimed by operator:alice/robot-1 until" in operator.page(f"/console/repairs/{found['id']}")
