# SPDX-License-Identifier: Apache-2.0
"""Is the right one blamed on the labelled incidents, and above all: is nobody blamed wrongly?"""

from __future__ import annotations

import pytest

from tests.bench.blame import (
    AFTERWARDS,
    BLIND,
    CAUSES,
    END,
    FRESH,
    LAST,
    UNREAD,
    Incident,
    innocents,
    load_incidents,
    pairs_of,
    report,
    said_of,
    score,
)

INCIDENTS = load_incidents()
UNSEEN = [one for one in INCIDENTS if one.is_unseen]
LATER = load_incidents(AFTERWARDS)
BLINDLY = load_incidents(BLIND)
FRESHLY = load_incidents(FRESH)
LASTLY = load_incidents(LAST)
ENDING = load_incidents(END)
NEWLY = load_incidents(UNREAD)
SEEN = [one for one in INCIDENTS if not one.is_unseen]


def test_the_set_is_large_varied_and_a_third_of_it_is_unseen() -> None:
    assert len(INCIDENTS) >= 120
    assert len({one.id for one in INCIDENTS}) == len(INCIDENTS)
    assert {one.cause for one in INCIDENTS} == set(CAUSES)
    assert all(one.source.startswith("https://") for one in INCIDENTS)
    assert 0.3 <= len(UNSEEN) / len(INCIDENTS) <= 0.4


@pytest.mark.parametrize("cause", ["hardware", "user"])
@pytest.mark.parametrize("part", [UNSEEN, SEEN], ids=["unseen", "seen"])
def test_of_those_that_are_blamed_nineteen_in_twenty_are_to_blame(part: list[Incident], cause: str) -> None:
    found = score(pairs_of(part), cause)

    assert found.said >= 5
    assert found.precision >= 0.95


@pytest.mark.parametrize("cause", CAUSES)
def test_most_of_each_cause_are_found(cause: str) -> None:
    assert score(pairs_of(INCIDENTS), cause).recall >= 0.85


def test_nothing_is_left_out_of_a_retry_that_its_account_does_not_blame() -> None:
    assert innocents([*INCIDENTS, *LATER, *BLINDLY]) == []


def test_what_was_read_afterwards_is_left_undecided_rather_than_blamed_on_somebody_else() -> None:
    pairs = pairs_of(LATER)

    assert len(LATER) >= 20
    assert [pair for pair in pairs if pair[1] not in {pair[0], "undecided"}] == []


def test_of_what_was_written_blindly_no_device_is_blamed_for_anything_else() -> None:
    pairs = pairs_of(BLINDLY)

    assert len({one.id for one in BLINDLY}) == len(BLINDLY) >= 60
    assert all(score(pairs, cause).are >= 8 for cause in CAUSES)
    assert all(score(pairs, cause).precision == 1 for cause in ("hardware", "driver"))
    assert score(pairs, "user").precision >= 0.9


@pytest.mark.parametrize(
    ("part", "earlier", "signalled", "are"),
    [
        (FRESHLY, [INCIDENTS, LATER, BLINDLY], 0, (18, 7, 9, 23, 13)),
        (LASTLY, [INCIDENTS, LATER, BLINDLY, FRESHLY], 0.5, (18, 6, 9, 27, 10)),
        (ENDING, [INCIDENTS, LATER, BLINDLY, FRESHLY, LASTLY], 0.5, (16, 5, 7, 26, 9)),
        (NEWLY, [INCIDENTS, LATER, BLINDLY, FRESHLY, LASTLY, ENDING], 0.5, (17, 5, 6, 28, 10)),
    ],
    ids=["fresh", "last", "end", "unread"],
)
def test_a_blind_set_is_large_varied_and_of_accounts_that_no_earlier_set_tells(
    part: list[Incident], earlier: list[list[Incident]], signalled: float, are: tuple[int, ...]
) -> None:
    pairs = pairs_of(part)
    others = {one.source for set_ in earlier for one in set_}

    assert len({one.id for one in part}) == len({one.source for one in part}) == len(part) >= 60
    assert all(one.source.startswith("https://") for one in part)
    assert {one.source for one in part}.isdisjoint(others)
    assert sum(bool(one.job.signals) for one in part) >= signalled * len(part)
    assert dict(zip(CAUSES, are, strict=True)) == {cause: score(pairs, cause).are for cause in CAUSES}


def test_what_other_nodes_show_is_not_laid_to_a_job() -> None:
    for one in [*FRESHLY, *LASTLY, *ENDING, *NEWLY]:
        around = one.around
        facts = (*around.faults, *around.checks, *around.nodes, *around.holds)
        assert {fact.node for fact in facts} <= set(one.job.nodes), one.id


def test_every_exclusion_has_evidence_at_its_place() -> None:
    for one in [*INCIDENTS, *BLINDLY, *FRESHLY, *LASTLY, *ENDING, *NEWLY]:
        found = said_of(one)
        places = {place for said in found.evidence for place in (said.node, said.device)}
        assert {*found.nodes, *found.devices} <= places, one.id


def test_the_report_shows_every_cause_and_the_table() -> None:
    shown = report("unseen", UNSEEN)

    assert all(shown.count(cause) >= 3 for cause in CAUSES)
    assert f"unseen: {len(UNSEEN)} incidents" in shown
