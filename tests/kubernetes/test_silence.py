# SPDX-License-Identifier: Apache-2.0
"""Are broken machines told from a network that is broken, when nodes fall silent?"""

from __future__ import annotations

import pytest

from registry.controller import asking
from registry.domain.node_naming import Naming
from registry.domain.taints import MANAGED_LABEL
from tests.kubernetes.bench import Bench, decision, minutes, unreachable
from tests.kubernetes.emulator import Emulator


@pytest.fixture
def bench(api: Emulator) -> Bench:
    return Bench(api)


def test_one_that_falls_silent_is_closed_at_once(bench: Bench) -> None:
    names = bench.admit(20)

    bench.silence(names[0])
    bench.turn(10)

    assert bench.closed() == [names[0]]
    assert bench.cluster.condition(names[0])["reason"] == "ReportStale"


def test_one_after_the_other_is_closed_however_many_in_the_end(bench: Bench) -> None:
    names = bench.admit(20)

    for count in range(1, 6):
        bench.silence(names[count])
        bench.turn(minutes(3))

    assert len(bench.closed()) == 5


def test_more_than_a_tenth_at_once_closes_nobody_and_says_so(bench: Bench) -> None:
    names = bench.admit(20)

    bench.silence(*names[:3])
    bench.turn(10)
    bench.turn(minutes(10))

    assert bench.closed() == []
    told = bench.cluster.condition(names[0])
    assert (told["status"], told["reason"]) == ("Unknown", "MassSilence")
    assert "report_stale" in told["message"]
    assert ("nodes that fall silent are not closed for it", {"silent": 3, "managed": 20}) in bench.said
    assert "pratique_controller_silent_nodes_kept 3" in bench.controller.meters.text()


def test_passes_that_lapse_in_a_long_silence_are_no_other_reason(bench: Bench) -> None:
    names = bench.admit(20)

    for name in names:
        bench.pratique.decisions[name] = decision(name, "hold", "report_stale", "passes_insufficient")
    bench.turn(minutes(20))

    assert bench.closed() == []


def test_a_hold_closes_its_node_also_while_many_are_silent(bench: Bench) -> None:
    names = bench.admit(20)
    bench.silence(*names[:10])

    bench.pratique.decisions[names[3]] = decision(names[3], "hold", "report_stale", "device_quarantined")
    bench.pratique.decisions[names[15]] = decision(names[15], "hold", "device_quarantined")
    bench.turn(10)

    assert bench.closed() == [names[3], names[15]]


def test_a_wave_is_met_at_a_tenth_within_two_minutes(bench: Bench) -> None:
    names = bench.admit(20)

    bench.silence(*names[:2])
    bench.turn(10)
    bench.silence(*names[2:8])
    bench.turn(30)
    bench.turn(minutes(5))

    assert bench.closed() == names[:2]


def test_what_is_left_of_a_mass_is_closed_when_the_others_are_heard_again(bench: Bench) -> None:
    names = bench.admit(20)
    bench.silence(*names[:6])
    bench.turn(10)

    bench.hear(*names[2:6])
    bench.turn(minutes(3))
    bench.turn(10)

    assert bench.closed() == names[:2]
    assert all(bench.cluster.condition(name)["status"] == "True" for name in names[2:])


def test_a_closed_node_is_not_opened_for_being_silent_with_many(bench: Bench) -> None:
    names = bench.admit(20)
    bench.pratique.decisions[names[0]] = decision(names[0], "hold", "device_quarantined")
    bench.turn(10)

    bench.silence(*names)
    bench.turn(minutes(3))

    assert bench.closed() == [names[0]]


def test_whoever_leads_next_knows_of_the_wave(bench: Bench) -> None:
    names = bench.admit(20)
    bench.silence(*names[:2])
    bench.turn(10)

    bench.silence(names[2])
    heir = bench.later()
    heir.turn(30)

    assert heir.closed() == names[:2]


def test_nodes_without_a_name_do_not_hide_one_that_is_silent(api: Emulator) -> None:
    """Of them nothing is ever heard, and they must not be waited for."""
    bench = Bench(api, Naming("label:host"))
    for number in range(20):
        host = {"host": f"host-{number}"} if number < 10 else {}
        bench.cluster.register(f"node-{number:03d}", labels={MANAGED_LABEL: "true", **host})
    bench.turn()

    bench.silence("host-3")
    bench.turn(10)

    assert bench.closed() == ["node-003"]


def test_nobody_is_closed_for_silence_while_not_all_are_known(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new leader that hears of a few nodes only cannot know whether they are silent alone."""
    names = bench.admit(20)
    monkeypatch.setattr(asking, "BATCH", 2)
    heir = bench.later()
    heir.silence(*names[:2])

    heir.pratique.asked.clear()
    heir.pratique.fails, heir.pratique.fails_after = unreachable(), 1
    heir.turn(minutes(5))
    assert heir.closed() == []

    heir.pratique.fails = None
    heir.turn(60)
    assert heir.closed() == names[:2]
