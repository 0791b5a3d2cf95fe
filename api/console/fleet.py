# SPDX-License-Identifier: Apache-2.0
"""How is the fleet? What is held and why, who is silent, and what came back under another name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Blueprint
from flask.typing import ResponseReturnValue
from markupsafe import Markup

from api.console.charts import Bar, Point, Series, bars, trend
from api.console.pages import PERSONS, page, render
from api.console.words import duration, number, percent, plain, segment, tone
from api.context import database, now, policy
from registry.domain.capacity import CapacityState
from registry.services.fleet_count import FleetCount
from registry.services.fleet_view import FleetView, Standing, read_fleet

bp = Blueprint("console_fleet", __name__)

_STATES = ("in_service", "quarantined", "missing", "conflict", "detached")
"""The states of devices, in the order in which the page has them."""

_NODE_STATES = ("reporting", "stale", "maintenance", "retired")


@bp.get("/")
@page(*PERSONS)
def index() -> ResponseReturnValue:
    """Show the fleet at a glance."""
    view = read_fleet(database(), policy=policy(), now=now())
    return render(
        "fleet.html",
        view=view,
        kinds=_kinds(view.count),
        nodes=[(state, view.nodes.get(state, 0)) for state in _NODE_STATES],
        places=_places(view.standing),
        held=_held(view),
        causes=_causes(view.holds),
        failing=view.count.failing,
        objectives=[_objective(one) for one in view.objectives["objectives"]],
    )


def _kinds(count: FleetCount) -> list[tuple[str, list[tuple[str, int]]]]:
    """Give each kind of device with how many of it are in which state."""
    kinds = sorted({kind for kind, _ in count.devices}, key=lambda kind: (kind != "gpu", kind))
    return [(kind, [(state, count.devices.get((kind, state), 0)) for state in _STATES]) for kind in kinds]


def _places(standing: Standing) -> Markup | None:
    """Draw where the GPUs are."""
    rows = [
        Bar(
            plain(place.state) + (f", {plain(place.cause)}" if place.cause else ""),
            gpus,
            tone=tone(place.state),
            said=f"{number(round(gpus))} GPUs, {number(round(nodes))} nodes",
        )
        for place, nodes, gpus in standing.places
    ]
    return bars("Where the GPUs are", rows, head=("State, cause", "How much")) if rows else None


def _held(view: FleetView) -> Markup | None:
    """Draw how many GPUs could not take work in the last week, and how many of these were in quarantine."""
    lost, held = [], []
    for at, states in sorted(view.hours.items()):
        lost.append(Point(at, sum(states.values()) - states.get(CapacityState.AVAILABLE, 0.0)))
        held.append(Point(at, states.get(CapacityState.QUARANTINED, 0.0)))
    if len(lost) < 2:
        return None
    series = (Series("out of work", lost, "plain"), Series("of these in quarantine", held, "bad"))
    return trend("GPUs out of work in the last week", series, unit="GPUs")


def _causes(holds: Mapping[str | None, int]) -> Markup | None:
    rows = [
        Bar(cause or "no cause named", count, f"/console/queue?cause={segment(cause)}" if cause else None, tone="bad")
        for cause, count in sorted(holds.items(), key=lambda one: (-one[1], str(one[0])))
    ]
    return bars("Quarantines by cause", rows, head=("Cause", "Quarantines")) if rows else None


def _room(left: float | None) -> str | None:
    """Say how much of the room for failure is left, of which more than all can be used up."""
    if left is None:
        return None
    if left >= 0:
        return f"{percent(left)} of the room for failure is left"
    return f"the room for failure is used up {number(round(1 - left, 1))} times over"


def _objective(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Say how one objective stands: the promise, what was seen, what is left, and who burns it."""
    is_share = shown["name"] != "interruptions"

    def told(value: float | None) -> str | None:
        return None if value is None else percent(value) if is_share else number(value)

    firing = [one for one in shown["burn_rates"] if one["is_firing"]]
    burn = shown["burn_rates"][0]["long"]
    by_cause = sorted((shown["by_cause"] or {}).items(), key=lambda one: -one[1])
    return {
        "name": shown["name"],
        "target": shown["target"] + ("" if is_share else " in 1,000 node-days"),
        "window": duration(shown["window_seconds"]),
        "actual": told(shown["actual"]),
        "state": "unknown" if shown["is_met"] is None else "ok" if shown["is_met"] else "fail",
        "said": "not measured yet" if shown["is_met"] is None else "kept" if shown["is_met"] else "missed",
        "left": _room(shown["left"]),
        "burn": None if burn is None else number(float(burn)),
        "alert": f"{firing[0]['level']} alert" if firing else None,
        "causes": [(plain(cause), number(float(rate))) for cause, rate in by_cause if rate],
    }
