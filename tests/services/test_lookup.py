# SPDX-License-Identifier: Apache-2.0
"""Is what somebody copied from a log, a label or a ticket found, and nothing else?"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from registry.services import lookup
from registry.services.lookup import Kind, look_up
from tests.fleet import Fleet, gpu, serial, uuid

Look = Callable[[str], list[tuple[Kind, str]]]


@pytest.fixture
def look(fleet: Fleet) -> Look:
    """Look a text up in a fleet of three nodes, and return kind and name of what is found."""
    for at, name in enumerate(("gpu-a1", "gpu-a2", "gpu_a3")):
        devices = [gpu(10 * at + slot, at=slot) for slot in range(4)]
        fleet.report(name, devices, instance=f"aws:///us-east-1a/i-0{at}")
    fleet.hold({"device": serial(1)}, {"device": serial(11)}, ticket="OPS-1")
    return lambda text: [(one.kind, one.name) for one in look_up(fleet.db, text)[0]]


def test_a_device_is_found_by_its_serial_and_uuid_in_any_usual_form(look: Look) -> None:
    assert look(serial(1)) == look(uuid(1)) == look(uuid(1).upper()) == look(f" {serial(1)} ")
    assert look(serial(1)) == [(Kind.DEVICE, serial(1))]
    assert look(serial(1).lstrip("0")[:-1]) == []


def test_all_units_of_a_board_are_found_by_its_serial(fleet: Fleet) -> None:
    fleet.report("node-a", [gpu(1, at=0), gpu(2, at=1, serial=serial(1)), gpu(3, at=2), gpu(4, at=3)])

    found, more = look_up(fleet.db, serial(1))

    assert len({one.ref for one in found}) == 2
    assert not more


def test_a_node_is_found_by_its_name_or_how_that_begins(look: Look) -> None:
    assert look("gpu-a1") == [(Kind.NODE, "gpu-a1")]
    assert look("GPU-A") == [(Kind.NODE, "gpu-a1"), (Kind.NODE, "gpu-a2")]
    assert look("gpu_") == [(Kind.NODE, "gpu_a3")], "an underscore is no wildcard"
    assert look("%") == look("pu-a1") == look("") == look("  ") == []


def test_an_instance_leads_to_its_node_by_its_whole_id_or_its_last_part(fleet: Fleet, look: Look) -> None:
    whole = "aws:///us-east-1a/i-01"

    assert look(whole) == look("i-01") == [(Kind.INSTANCE, whole)]
    assert look_up(fleet.db, "i-01")[0][0].ref == "gpu-a2"
    assert look("i-0") == look("-01") == []


def test_a_ticket_leads_to_the_quarantines_that_name_it(fleet: Fleet, look: Look) -> None:
    assert look("OPS-1") == [(Kind.TICKET, "OPS-1")]
    assert look_up(fleet.db, "OPS-1")[0][0].said == "2 quarantines"
    assert look("OPS-2") == []


def test_no_more_is_listed_than_anybody_reads(fleet: Fleet, look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "FOUND_MAX", 2)

    assert look_up(fleet.db, "gpu")[1]
    assert len(look("gpu")) == 2
    assert not look_up(fleet.db, "gpu-")[1]


@pytest.mark.usefixtures("look")
def test_a_ticket_whose_holds_are_over_leads_to_each_of_them(fleet: Fleet) -> None:
    for hold in fleet.open_holds():
        fleet.release(hold["id"])

    found, _ = look_up(fleet.db, "OPS-1")

    assert [one.kind for one in found] == [Kind.HOLD, Kind.HOLD]
    assert found[0].said == "released by operator:alice: it smells"


@pytest.mark.parametrize("name", [serial(77), uuid(77), uuid(77).upper()])
def test_what_only_a_hold_waits_for_is_found_by_that_hold(fleet: Fleet, name: str) -> None:
    type_ = "serial" if name == serial(77) else "uuid"
    (item,) = fleet.hold({"identifier": {"kind": "gpu", "type": type_, "value": name}}, reason="on the list")

    (found,) = look_up(fleet.db, name)[0]

    assert (found.kind, found.ref) == (Kind.HOLD, item["quarantine"]["id"])
    assert found.said == "no node has shown it yet; held by operator:alice: on the list"


def test_a_hold_is_found_by_its_device_once_a_node_has_shown_it(fleet: Fleet, look: Look) -> None:
    fleet.hold({"identifier": {"kind": "gpu", "type": "serial", "value": serial(77)}}, reason="on the list")
    fleet.report("gpu-a9", [gpu(77, at=0)])

    assert look(serial(77)) == [(Kind.DEVICE, serial(77))]
