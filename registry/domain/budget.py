# SPDX-License-Identifier: Apache-2.0
"""How many nodes may repairs disturb at once, and is it the nodes that are bad or the check that says so?

A limit is the smaller of a number and a share. Shares are rounded down, and are at least one node: a fleet of three
must be able to mend its one bad node. Fleet, profile and zone have one each, and so many repairs may begin within an
hour. Limits count what is so now, so they let go by themselves when nodes come back; what waited goes on one by one, as
far as its condition still stands, and never all at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from registry.domain.policy import Policy
from registry.domain.times import brief

DISABLED = "repairs are switched off"
"""What every order waits for while the switch is off."""


@dataclass(frozen=True, slots=True)
class Place:
    """A node with what it shares with others. Nodes that name no zone are in one together."""

    node_id: str
    profile: str
    zone: str | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many unretired nodes have reported of late: in all, by profile and by zone."""

    fleet: int
    profiles: Mapping[str, int] = field(default_factory=dict)
    zones: Mapping[str | None, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wish:
    """An order that waits: which, where, and through which check."""

    order_id: str
    place: Place
    condition: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What the budget says: the orders that may become ready, and of each of the others what it waits for."""

    granted: tuple[str, ...]
    waiting: Mapping[str, str]


def limit_of(nodes: int, *, most: int, percent: int) -> int:
    """Return how many of `nodes` may be disturbed at once: the smaller limit, the share rounded down, at least 1."""
    return max(1, min(most, percent * nodes // 100))


def grant(
    wishes: Sequence[Wish],
    disturbed: Iterable[Place],
    *,
    sizes: Sizes,
    begun_within_hour: int,
    suspected: Iterable[str],
    policy: Policy,
    is_stopped: bool = False,
) -> Answer:
    """Say which orders may become ready, in the order of `wishes`.

    `disturbed` are the nodes that repairs keep out now, each once or more; a further order for one of them is free.
    `begun_within_hour` are the nodes whose repair began within the last hour. `suspected` are conditions whose check is
    suspected. `is_stopped` is a person's word to stop everything.
    """
    if is_stopped or not policy.repair_enabled:
        return Answer((), {one.order_id: DISABLED for one in wishes})
    counts = _Counts(disturbed, sizes, begun_within_hour, policy)
    stopped = frozenset(suspected)
    granted: list[str] = []
    waiting: dict[str, str] = {}
    for one in wishes:
        reason = _suspicion(one.condition) if one.condition in stopped else counts.why_not(one.place)
        if reason is not None:
            waiting[one.order_id] = reason
            continue
        counts.add(one.place)
        granted.append(one.order_id)
    return Answer(tuple(granted), waiting)


def _suspicion(condition: str) -> str:
    return f"{condition} turned bad on many nodes at once: a person has to say whether its check is to be believed"


class _Counts:
    """Counts the nodes that are disturbed, also by what is granted on the way."""

    def __init__(self, disturbed: Iterable[Place], sizes: Sizes, begun: int, policy: Policy) -> None:
        places = {one.node_id: one for one in disturbed}.values()
        self._nodes = {one.node_id for one in places}
        self._profiles = Counter(one.profile for one in places)
        self._zones = Counter(one.zone for one in places)
        self._sizes, self._begun, self._policy = sizes, begun, policy

    def why_not(self, place: Place) -> str | None:
        """Say which limit one more node would exceed; None when it may be disturbed."""
        if place.node_id in self._nodes:
            return None
        policy, sizes = self._policy, self._sizes
        if self._begun >= policy.repair_hour_nodes:
            return f"{self._begun} repairs began within the hour, and the limit is {policy.repair_hour_nodes}"
        groups = (
            ("the fleet", len(self._nodes), sizes.fleet, policy.repair_fleet_nodes, policy.repair_fleet_percent),
            (
                f"profile {place.profile}",
                *(self._profiles[place.profile], sizes.profiles.get(place.profile, 1)),
                *(policy.repair_profile_nodes, policy.repair_profile_percent),
            ),
            (
                f"zone {place.zone}" if place.zone else "the nodes without a zone",
                *(self._zones[place.zone], sizes.zones.get(place.zone, 1)),
                *(policy.repair_zone_nodes, policy.repair_zone_percent),
            ),
        )
        for name, now, nodes, most, percent in groups:
            limit = limit_of(nodes, most=most, percent=percent)
            if now >= limit:
                return f"{now} of {nodes} nodes of {name} are disturbed, and the limit is {limit}"
        return None

    def add(self, place: Place) -> None:
        """Count one more; a node that is disturbed already is not counted again."""
        if place.node_id in self._nodes:
            return
        self._nodes.add(place.node_id)
        self._profiles[place.profile] += 1
        self._zones[place.zone] += 1
        self._begun += 1


# --- the check itself -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turn:
    """A node turned bad through one check at a time."""

    condition: str
    node_id: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A check that made many nodes bad within a short time: their evidence is kept, and nobody acts on it."""

    condition: str
    since: datetime
    nodes: int
    limit: int

    def told(self) -> str:
        """Say it to a person."""
        return (
            f"{self.nodes} nodes turned bad through {self.condition} at about {brief(self.since)}, and more than "
            f"{self.limit} at once are not believed: look at the check, or at what these nodes share."
        )


def suspect(
    turns: Iterable[Turn], *, fleet: int, trusted_at: Mapping[str, datetime], policy: Policy
) -> tuple[Suspicion, ...]:
    """Return the checks that are suspected: by the first window in which more nodes turned bad than are believed.

    `trusted_at` are the times at which a person said of a check to go on: what turned bad before speaks no more against
    it. A suspicion lasts until then, whether the nodes recover or not, so whoever stores it asks here for new ones.
    """
    limit = max(policy.detector_nodes, policy.detector_percent * fleet // 100)
    by_check: dict[str, list[Turn]] = {}
    for one in turns:
        told_at = trusted_at.get(one.condition)
        if told_at is None or one.at > told_at:
            by_check.setdefault(one.condition, []).append(one)
    found = (_first_wave(name, mine, limit, policy) for name, mine in sorted(by_check.items()))
    return tuple(one for one in found if one is not None)


def _first_wave(condition: str, turns: list[Turn], limit: int, policy: Policy) -> Suspicion | None:
    """Look for the first window with too many nodes. It ends with one of the turns."""
    window = timedelta(seconds=policy.detector_window_seconds)
    turns.sort(key=lambda one: (one.at, one.node_id))
    first, inside = 0, Counter[str]()
    for one in turns:
        inside[one.node_id] += 1
        while turns[first].at <= one.at - window:
            gone = turns[first].node_id
            inside[gone] -= 1
            if not inside[gone]:
                del inside[gone]
            first += 1
        if len(inside) > limit:
            return Suspicion(condition, one.at, len(inside), limit)
    return None
