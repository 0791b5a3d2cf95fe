# SPDX-License-Identifier: Apache-2.0
"""What is answered about names that somebody pasted: nodes, cards, and things that nobody has seen?"""

from __future__ import annotations

from datetime import timedelta

import pytest

from registry.domain.pasted import parse_pasted
from registry.services.explorer import Found, explore, table_of
from tests.fleet import Fleet, efa, gpu, serial, uuid

UNSEEN = "1659999999999"


def ask(fleet: Fleet, *lines: str) -> list[Found]:
    return explore(fleet.db, parse_pasted("\n".join(lines)), policy=fleet.policy, now=fleet.clock.now)


def briefly(found: list[Found]) -> list[tuple[str, str, list[str]]]:
    """What each is, the verdict, and the codes of its reasons."""
    return [
        (str(one.named), one.verdict, [reason["code"] for reason in (one.decision or {"reasons": ()})["reasons"]])
        for one in found
    ]


def test_nodes_and_cards_are_told_apart_by_the_records(fleet: Fleet) -> None:
    fleet.admit()
    fleet.hold({"device": serial(1)})

    assert briefly(ask(fleet, "node-a", serial(0), serial(1), uuid(1).upper(), "node-z", UNSEEN)) == [
        ("node", "hold", ["device_quarantined"]),
        ("device", "admit", []),
        ("device", "hold", ["device_quarantined"]),
        ("device", "hold", ["device_quarantined"]),
        ("unknown", "unknown", []),
        ("unknown", "unknown", []),
    ]


def test_the_answer_on_a_node_is_the_decision_that_the_node_itself_gets(fleet: Fleet) -> None:
    fleet.report()
    (found,) = ask(fleet, "node-a")
    assert found.decision == fleet.decide().to_json()


def test_asking_writes_nothing(fleet: Fleet) -> None:
    fleet.admit()
    before = fleet.decide().sequence
    ask(fleet, "node-a", serial(1), UNSEEN)
    assert fleet.decide().sequence == before


def test_a_card_is_told_with_the_node_that_it_is_on_now(fleet: Fleet) -> None:
    fleet.admit()
    (found,) = ask(fleet, serial(2))
    assert [(one.serial, found.places[one.id]) for one in found.devices] == [(serial(2), "node-a")]
    assert "No hold meets it" in found.said


@pytest.mark.parametrize("vendor", [None, "nvidia"])
def test_a_card_that_nobody_has_seen_and_somebody_waits_for_is_not_admitted(fleet: Fleet, vendor: str | None) -> None:
    named = {"kind": "gpu", "type": "serial", "value": UNSEEN} | ({"vendor": vendor} if vendor else {})
    fleet.hold({"identifier": named})

    (found,) = ask(fleet, UNSEEN)

    assert briefly([found]) == [("awaited", "hold", ["device_quarantined"])]
    assert found.said == "Never seen here, and a hold waits for it: no node that carries it will be admitted."


def test_what_nobody_knows_is_never_called_admitted(fleet: Fleet) -> None:
    hold = {"release_policy": "at_expiry", "expires_at": fleet.clock.now + timedelta(hours=1)}
    fleet.hold({"identifier": {"kind": "gpu", "type": "serial", "value": UNSEEN}}, **hold)
    fleet.clock.advance(7200)
    (found,) = ask(fleet, UNSEEN)
    assert found.said.startswith("Unknown:")


@pytest.mark.parametrize(
    ("text", "words"),
    [("N/A", "it is a placeholder"), ("0000000000000", "all zeros"), ("1.65E+12", "exponent form")],
)
def test_a_line_that_names_nothing_says_why(fleet: Fleet, text: str, words: str) -> None:
    """C02, C21: zeros are nobody, and what a spreadsheet has rounded is refused, not guessed."""
    (found,) = ask(fleet, text)
    assert (str(found.named), found.verdict) == ("nothing", "unknown")
    assert words in found.said


def test_one_serial_of_two_makers_gives_both(fleet: Fleet) -> None:
    """C20: a bare serial does not pick one of them."""
    fleet.report(devices=[gpu(0, serial="12345"), *(gpu(number) for number in (1, 2, 3))])
    other = gpu(9, serial="12345", vendor="amd", uuid="0x67c6000000000009")
    fleet.report("node-b", [other, *(gpu(number) for number in (11, 12, 13))], instance="i-2")
    fleet.hold({"device": uuid(0)})

    (found,) = ask(fleet, "12345")

    assert sorted(one.vendor for one in found.devices) == ["amd", "nvidia"]
    assert found.said == "2 devices bear this name. Not admitted."


def test_an_adapter_that_is_known_by_its_place_alone_is_found_by_our_id(fleet: Fleet) -> None:
    fleet.report(devices=[*(gpu(number) for number in range(8)), *(efa(at) for at in range(32))], profile="p5.48xlarge")
    with fleet.db.read() as snapshot:
        (id_,) = snapshot.one("SELECT id FROM device WHERE kind = 'efa' ORDER BY id LIMIT 1") or ()
    fleet.hold({"device": id_})
    assert briefly(ask(fleet, id_)) == [("device", "hold", ["device_quarantined"])]


def test_a_slice_means_the_gpu_that_it_is_a_part_of(fleet: Fleet) -> None:
    """C07: by the name of either form of driver."""
    fleet.report(devices=[gpu(0, slices=("MIG-bbbb0001-0000-0000-0000-000000000001",)), *map(gpu, (1, 2, 3))])
    fleet.hold({"device": uuid(0)})
    own, old, unknown = ask(
        fleet,
        "MIG-bbbb0001-0000-0000-0000-000000000001",
        f"MIG-{uuid(0)}/7/0",
        "MIG-cccc0001-0000-0000-0000-000000000001",
    )
    assert [one.serial for one in (*own.devices, *old.devices)] == [serial(0)] * 2
    assert str(unknown.named) == "nothing"
    assert "MIG slice" in unknown.said


def test_a_row_of_a_node_and_a_card_is_judged_by_both(fleet: Fleet) -> None:
    fleet.admit()
    fleet.report("node-b", [gpu(number) for number in range(10, 14)], instance="i-2")
    fleet.hold({"device": serial(11)})

    rows = ("node,serial", f"node-a,{serial(11)}", f"node-z,{serial(11)}", "node-z,", f"node-a,{UNSEEN}")

    assert briefly(ask(fleet, *rows)) == [
        ("node and device", "hold", ["device_quarantined"]),
        ("node and device", "hold", ["device_quarantined"]),
        ("node", "hold", ["node_unknown"]),
        ("node", "admit", []),
    ]


def test_the_table_has_a_line_for_each_name_and_every_reason(fleet: Fleet) -> None:
    fleet.admit()
    fleet.hold({"device": serial(1)})
    head, *lines = table_of(ask(fleet, serial(1), UNSEEN))
    held, unknown = (dict(zip(head, line, strict=True)) for line in lines)
    assert (held["given"], held["admitted"], held["reasons"]) == (serial(1), "no", "device_quarantined")
    assert "it smells" in held["why"]
    assert held["nodes"] == "node-a"
    assert (unknown["is"], unknown["admitted"], unknown["disposition"]) == ("unknown", "unknown", "unknown")
