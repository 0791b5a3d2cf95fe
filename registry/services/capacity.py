# SPDX-License-Identifier: Apache-2.0
"""How much of the fleet could take work, minute by minute, and where did the rest of its time go?

One process looks at the nodes every minute, asks for each the same decision that the node itself would get, and adds
the counts up. A look stands for the time since the one before. Where none was, because the service was away or nobody
held the lease, nothing is counted and nothing guessed: that time is told as unseen. What is kept are sums, and a look
changes nothing that anybody decided, so it writes no event.

The devices that are counted are GPUs: as many as the node lists, or as it should have when some are missing. What is
placed on no node (a board in a drawer, a machine given back) is not owned, and neither is a retired node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial

from registry.domain.capacity import Place, place_of
from registry.domain.policy import Policy
from registry.domain.reports import Kind
from registry.services.admission import decide_on, load_facts
from registry.services.leasing import Lease, under
from registry.store import holds, repairs, tallies
from registry.store.database import Database, Snapshot, to_micros
from registry.store.tallies import Capacity

LOOK_SECONDS = 60
"""How often the nodes are looked at: five times in the shortest window."""

_GAP = timedelta(seconds=150)
"""A longer time between two looks was not seen: one look may be missed."""

NODES_MAX = 2000
"""Most nodes that one look judges, about a second's work. Of a larger fleet it takes every second, third … node,
another part each time, and lets each stand for as many."""

AT_ONCE = 50
"""Nodes judged in one view of the records, a twentieth of a second: a view must not be held open for long."""

REST_SECONDS = 0.2
"""How long a look rests after each view: nobody waits for it, and all its process does waits while it computes."""

_EARLY = timedelta(seconds=5)
"""By how much a look may come before its time, because who looks wakes up only now and then."""


def look(
    db: Database, lease: Lease, *, policy: Policy, now: datetime, rest: Callable[[float], object] = lambda _: None
) -> bool:
    """Look at the nodes if it is time, and keep what was seen; tell whether it was. Raises LeaseLost, StoreUnavailable.

    The nodes are judged before the transaction begins: nobody who writes has to wait for it. `rest` is asked to wait so
    many seconds, now and then.
    """
    with db.read() as snapshot:
        if not _is_due(tallies.find_look(snapshot), now):
            return False
        names = tallies.list_owned(snapshot)
    seen = survey(db, names, policy=policy, now=now, rest=rest)
    under(db, lease, lambda: _keep(db, seen, now), now=now)
    return True


def survey(
    db: Database,
    names: Sequence[str],
    *,
    policy: Policy,
    now: datetime,
    rest: Callable[[float], object] = lambda _: None,
) -> dict[tuple[str, Place], Capacity]:
    """Judge these nodes, or of very many a part, and return how many nodes and devices are where, by profile."""
    weight = max(1, -(-len(names) // NODES_MAX))
    part = names[int(now.timestamp()) // LOOK_SECONDS % weight :: weight]
    found: dict[tuple[str, Place], Capacity] = {}
    for start in range(0, len(part), AT_ONCE):
        with db.read() as snapshot:
            for profile, place, devices in _judge(snapshot, part[start : start + AT_ONCE], policy, now):
                key = profile, place
                found[key] = found.get(key, Capacity()).plus(Capacity(weight, weight * devices))
        rest(REST_SECONDS)
    return found


def _judge(snapshot: Snapshot, names: Sequence[str], policy: Policy, now: datetime) -> Iterator[tuple[str, Place, int]]:
    """Yield profile, place and number of GPUs of each node."""
    repaired = repairs.nodes_claimed(snapshot)
    for name in names:
        facts = load_facts(snapshot, name, policy=policy, now=now)
        decision = decide_on(snapshot, facts, policy=policy, now=now)
        held = [one.quarantine for one in decision.reasons if one.quarantine is not None]
        place = place_of(
            decision,
            hold_causes={one.hold.id: one.hold.cause for one in holds.get_holds(snapshot, held).values()},
            checks=facts.checks,
            fault_cause=partial(tallies.newest_fault_cause, snapshot, name),
            policy=policy,
            is_repaired=name in repaired,
        )
        devices = max(facts.listed_counts.get(Kind.GPU) or 0, facts.expected_counts.get(Kind.GPU) or 0)
        yield facts.profile_name or "", place, devices


def _is_due(last: datetime | None, now: datetime) -> bool:
    """A clock that was set back by much begins anew."""
    return last is None or now - last >= timedelta(seconds=LOOK_SECONDS) - _EARLY or last - now > _GAP


def _keep(db: Database, seen: dict[tuple[str, Place], Capacity], now: datetime) -> None:
    """Let a look stand for the time since the one before, unless that is too long ago. Inside a transaction."""
    with db.write(now) as tx:
        last = tallies.find_look(tx)
        if not _is_due(last, now):
            return  # another process was faster
        if last is not None and timedelta() < now - last <= _GAP:
            tallies.add_capacity(tx, seen, to_micros(now) - to_micros(last))
        tallies.set_look(tx)
        tallies.forget_old(tx)
