# SPDX-License-Identifier: Apache-2.0
"""Is one GPU hotter than its neighbours that do the same work?

A temperature alone says little: parts, coolers and rooms differ. What speaks is the difference to neighbours of the
same model under like load, and only when it lasts. Where the load is unknown nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import TypeAlias

from registry.domain.policy import Policy
from registry.domain.reports import CheckResult, CheckStatus, Reading
from registry.domain.times import brief

THERMAL = "gpu.thermal"

_HOTTEST = 150
"""Degrees beyond which a number is no temperature: GPUs switch themselves off at about 105. Blanks of DCGM and NVML
(2147483632, 9223372036854775794), an absent sensor (65535, 510, 2112) and the 0 of a virtual GPU all lie outside."""
_STRONGEST_WATTS = 10_000
"""Several times the strongest board there is; 0 W is what parts print that cannot measure."""

_BOUNDS = {
    "temperature_celsius": _HOTTEST,
    "memory_temperature_celsius": _HOTTEST,
    "power_watts": _STRONGEST_WATTS,
}

Times: TypeAlias = tuple[datetime | None, datetime | None]
"""Since when a GPU is above the first margin, and since when above the second."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of a list with what was read from it. `key` is the same from look to look, `name` is for people.

    Without a `model` it has no neighbours.
    """

    key: str
    name: str | None
    model: str | None
    readings: Mapping[str, Reading]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one look amounts to. No `results`: nothing could be compared, or not what was hot for long before.

    `since` holds the GPUs that are hot, to be given to the next look.
    """

    results: tuple[CheckResult, ...]
    since: dict[str, Times]


@dataclass(frozen=True, slots=True)
class _Look:
    """One GPU with a usable temperature and a known load."""

    gpu: Gpu
    celsius: float
    watts: float | None
    percent: float | None


def compare(gpus: Sequence[Gpu], since: Mapping[str, Times], policy: Policy, now: datetime) -> Verdict:
    """Compare the GPUs of one list with one another. `since` is that of the node's last look in this boot.

    A GPU is hot when it is `heat_warn_celsius` above the median of at least `heat_neighbours` neighbours of its model
    under like load, until it is below `heat_clear_celsius`. Once that has lasted `heat_window_seconds` it is a warning,
    and with `heat_fail_celsius` a failure if `heat_counts`. Idle GPUs are not compared. One that was hot for long and
    cannot be compared now stays as it was.
    """
    looks = [look for gpu in gpus if (look := _look(gpu, policy)) is not None]
    compared: dict[str, tuple[_Look, list[_Look]]] = {}
    coolest = min((look.celsius for look in looks), default=0.0)
    for look in looks:
        # Most nodes have nothing hot: of the GPUs that cannot be, one is enough to see that there is a comparison.
        may_be_hot = look.gpu.key in since or look.celsius - coolest >= policy.heat_clear_celsius
        if (may_be_hot or not compared) and (peers := _peers(look, looks, policy)):
            compared[look.gpu.key] = look, peers
    listed = {gpu.key for gpu in gpus}
    hot = {
        key: times
        for key, times in since.items()
        if key in listed and key not in compared and _has_lasted(times[0], policy, now)
    }
    is_open = bool(hot)
    results: list[CheckResult] = []
    for key, (look, peers) in compared.items():
        times = _since(look, peers, since.get(key, _NEVER), policy, now)
        if times[0] is None:
            continue
        hot[key] = times
        if _has_lasted(times[0], policy, now):
            results.append(_result(look, peers, times, policy, now))
    if compared and not is_open and not results:
        results.append(CheckResult(THERMAL, CheckStatus.PASS))
    return Verdict(tuple(results), hot)


@dataclass(frozen=True, slots=True)
class Beside:
    """How a GPU stands beside its neighbours: `above` their median by so many degrees; None when none compare."""

    neighbours: int
    median: float | None
    above: float | None


def beside(gpus: Sequence[Gpu], policy: Policy) -> dict[str, Beside]:
    """Say of each GPU, by its key, how much hotter it is now than those neighbours that it can be compared with."""
    looks = [look for gpu in gpus if (look := _look(gpu, policy)) is not None]
    found = dict.fromkeys((gpu.key for gpu in gpus), Beside(0, None, None))
    for look in looks:
        if peers := _peers(look, looks, policy):
            middle = _median(peers)
            found[look.gpu.key] = Beside(len(peers), middle, look.celsius - middle)
    return found


_NEVER: Times = (None, None)


def _has_lasted(since: datetime | None, policy: Policy, now: datetime) -> bool:
    return since is not None and now - since >= timedelta(seconds=policy.heat_window_seconds)


def _since(look: _Look, peers: Sequence[_Look], before: Times, policy: Policy, now: datetime) -> Times:
    """Say since when a GPU is above each margin; it has to fall below the next lower one to leave it."""
    above = look.celsius - _median(peers)
    warm = _kept(before[0], now, above, policy.heat_warn_celsius, policy.heat_clear_celsius)
    return warm, _kept(before[1], now, above, policy.heat_fail_celsius, policy.heat_warn_celsius)


def _kept(before: datetime | None, now: datetime, above: float, enter: int, leave: int) -> datetime | None:
    if before is not None and above >= leave:
        return before
    return now if above >= enter else None


def _result(look: _Look, peers: Sequence[_Look], times: Times, policy: Policy, now: datetime) -> CheckResult:
    """Word what was found, with the numbers it was decided from."""
    middle = _median(peers)
    load = f"{look.watts:g} W" if look.watts is not None else f"{look.percent:g} % busy"
    since = f" since {brief(times[0])}" if times[0] else ""
    message = (
        f"{look.celsius:g} °C at {load}, {look.celsius - middle:g} °C above the median of {len(peers)} neighbours of "
        f"its model under like load ({middle:g} °C); hotter than they{since}"
    )
    is_fault = bool(policy.heat_counts) and _has_lasted(times[1], policy, now)
    status = CheckStatus.FAIL if is_fault else CheckStatus.WARN
    return CheckResult(THERMAL, status, look.gpu.name, "gpu.thermal.neighbour_outlier", message)


def _median(peers: Sequence[_Look]) -> float:
    return median(one.celsius for one in peers)


def _peers(look: _Look, looks: Sequence[_Look], policy: Policy) -> list[_Look]:
    """Give the neighbours that a GPU can be compared with; none when they are too few to say anything."""
    peers = [one for one in looks if one is not look and _is_like(look, one, policy)]
    return peers if len(peers) >= policy.heat_neighbours else []


def without_blanks(readings: Mapping[str, Reading]) -> dict[str, Reading]:
    """Give readings as people are shown them: with nothing in place of a number that is no temperature or power."""
    return {
        name: None if name in _BOUNDS and _number(value, _BOUNDS[name]) is None else value
        for name, value in readings.items()
    }


def _look(gpu: Gpu, policy: Policy) -> _Look | None:
    """Read one GPU; None when its temperature, model or load says nothing, or it has nothing to do."""
    celsius = _number(gpu.readings.get("temperature_celsius"), _HOTTEST)
    watts = _number(gpu.readings.get("power_watts"), _STRONGEST_WATTS)
    busy = gpu.readings.get("utilization_percent")
    percent = 0.0 if busy == 0 and not isinstance(busy, bool) else _number(busy, 100)
    is_idle = percent is not None and percent < policy.heat_busy_percent
    if celsius is None or gpu.model is None or is_idle or (watts is None and percent is None):
        return None
    return _Look(gpu, celsius, watts, percent)


def _is_like(one: _Look, other: _Look, policy: Policy) -> bool:
    """Tell whether two GPUs can be compared: by power where both print it, for that is the heat; else by use."""
    if one.gpu.model != other.gpu.model:
        return False
    if one.watts is not None and other.watts is not None:
        return abs(one.watts - other.watts) * 100 <= policy.heat_power_band_percent * max(one.watts, other.watts)
    if one.percent is not None and other.percent is not None:
        return abs(one.percent - other.percent) <= policy.heat_busy_band_percent
    return False


def _number(value: Reading, most: float) -> float | None:
    """Return a reading that can be true: above zero, and not above `most`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 < value <= most else None
