# SPDX-License-Identifier: Apache-2.0
"""What went wrong with a device, kind by kind, and did it go with the card or stay with the slot?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from registry.domain.failures import Cause
from registry.domain.policy import Policy
from registry.domain.swaps import Neighbour, Seen, SwapTest, Visit, judge_swaps
from registry.domain.times import rfc3339
from registry.store import device_past
from registry.store.database import Snapshot
from registry.store.device_past import Group, Place
from registry.store.devices import Device

PLACES_COMPARED = 20
"""In how many slots it is looked who else failed there, those where the device failed last."""

NEIGHBOURS_PER_PLACE = 50

_NOT_THE_CARDS = (Cause.USER, Cause.PLATFORM)
"""What says nothing about a card, wherever it is."""


def kinds_of(groups: Sequence[Group], policy: Policy) -> list[dict[str, Any]]:
    """Put the failures of a device together by kind, the one seen last first: how many, how often, since when, where.

    `failures` counts records, `times` how often they were seen, `counted` the records that have an effect.
    """
    by_kind: dict[str, list[Group]] = {}
    for one in groups:
        by_kind.setdefault(kind_of(one.code, policy), []).append(one)
    shown = [_kind(kind, those, policy) for kind, those in by_kind.items()]
    return sorted(shown, key=lambda one: (one["last_at"], one["kind"]), reverse=True)


def kind_of(code: str, policy: Policy) -> str:
    """Return the name that joins what tools call one fault; a code that has none stands for itself."""
    return policy.look_up(code).kind or code


def _kind(kind: str, groups: Sequence[Group], policy: Policy) -> dict[str, Any]:
    newest = policy.look_up(max(groups, key=lambda one: one.last_at).code)
    return {
        "kind": kind,
        "title": newest.title,
        "codes": sorted({one.code for one in groups}),
        "cause": str(newest.cause),
        "severity": str(newest.severity),
        "effect": str(newest.effect),
        "first_action": str(newest.first_action),
        "failures": sum(one.failures for one in groups),
        "times": sum(one.times for one in groups),
        "counted": sum(one.counted for one in groups),
        "first_at": rfc3339(min(one.first_at for one in groups)),
        "last_at": rfc3339(max(one.last_at for one in groups)),
        "nodes": sorted({one.node for one in groups if one.node}),
        "places": sorted({f"{one.node} {one.slot or ''}".strip() for one in groups if one.node}),
    }


def compare_places(
    snapshot: Snapshot, device: Device, groups: Sequence[Group], places: Sequence[Place], policy: Policy
) -> SwapTest:
    """Judge by all places of a device whether its fault goes with it. `places` are its placements."""
    own = [one for one in groups if one.counted and one.node and _is_of_card(one.code, policy)]
    seen = _seen(own, policy)
    visits = [Visit(one.node, one.slot, one.since, one.chassis) for one in places]
    return judge_swaps(seen, visits, _neighbours(snapshot, device, own, policy))


def _is_of_card(code: str, policy: Policy) -> bool:
    row = policy.look_up(code)
    return row.is_fault and row.cause not in _NOT_THE_CARDS


def _seen(groups: Sequence[Group], policy: Policy) -> list[Seen]:
    """Join the codes of one kind in one place."""
    spans: dict[tuple[str, str, str | None, str | None], tuple[datetime, datetime]] = {}
    for one in groups:
        key = (kind_of(one.code, policy), one.node or "", one.slot, one.chassis)
        first, last = spans.get(key, (one.first_at, one.last_at))
        spans[key] = min(first, one.first_at), max(last, one.last_at)
    return [Seen(*key[:3], *span, machine=key[3]) for key, span in spans.items()]


def _neighbours(snapshot: Snapshot, device: Device, groups: Sequence[Group], policy: Policy) -> list[Neighbour]:
    newest = sorted(groups, key=lambda one: one.last_at, reverse=True)
    slots = dict.fromkeys((one.node_id, one.slot, one.node) for one in newest if one.node_id and one.slot)
    return [
        Neighbour(kind_of(failure.code, policy), node or "", slot, name, failure.last_at)
        for node_id, slot, node in list(slots)[:PLACES_COMPARED]
        for failure, name in device_past.failed_in_slot(
            snapshot, node_id or "", slot or "", device.id, NEIGHBOURS_PER_PLACE
        )
    ]
