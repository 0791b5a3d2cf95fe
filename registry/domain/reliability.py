# SPDX-License-Identifier: Apache-2.0
"""How often must a job of so many nodes expect to be interrupted, and how often should it save its progress?

The formulas are first-order and assume that failures come independently and at a constant rate. Real ones come in
clusters, around bad boards and bad racks: take them for a scale, not for a forecast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SECONDS_PER_DAY = 86_400
DAYS_PER_YEAR = 365


def chance_of_failure(units: int, *, yearly: float, days: float) -> float:
    """Return the chance that at least one of so many units fails within so many days.

    `yearly` is the chance that one unit fails within a year of 365 days. A unit survives `days` with
    `(1 - yearly) ** (days / 365)`, and all of them have to. Raises ValueError for a chance outside 0 to 1.
    """
    if not 0 <= yearly <= 1:
        raise ValueError("a chance lies between 0 and 1")
    return 1 - math.pow(1 - yearly, units * days / DAYS_PER_YEAR)


def mttf_seconds(nodes: float, *, per_1000_node_days: float) -> float:
    """Return the mean time to failure, in seconds, of a job on so many nodes; `math.inf` at a rate of none.

    A gang stops with its first node, so rates add up: MTTF = 1 / (nodes * rate), as in section III of Kokolis et al.,
    "Revisiting Reliability in Large-Scale Machine Learning Research Clusters", HPCA 2025
    (https://arxiv.org/abs/2410.21680), who measured 6.50 failures per 1,000 node-days in one cluster, 2.34 in another.
    """
    rate = nodes * per_1000_node_days / 1000
    return SECONDS_PER_DAY / rate if rate else math.inf


def failures_per_1000_node_days(failures: int, node_seconds: float) -> float | None:
    """Return the rate that `mttf_seconds` takes; None where no node has worked at all."""
    return failures * 1000 * SECONDS_PER_DAY / node_seconds if node_seconds else None


def checkpoint_interval_seconds(*, checkpoint_seconds: float, mttf: float) -> float:
    """Return how long to work between two checkpoints, in seconds, so that the least time is wasted.

    sqrt(2 * cost * MTTF): J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9),
    1974 (https://doi.org/10.1145/361147.361115), which is the leading term of J. T. Daly, "A higher order estimate of
    the optimum checkpoint interval for restart dumps", FGCS 22(3), 2006 (https://doi.org/10.1016/j.future.2004.11.016).
    It holds while the cost is small beside the MTTF. Infinite where nothing ever fails.
    """
    return math.sqrt(2 * checkpoint_seconds * mttf)


@dataclass(frozen=True, slots=True)
class Interruptions:
    """One line of a published table: what stopped the job, what sort of thing that is, and how often."""

    component: str
    category: str
    count: int


LLAMA_3: tuple[Interruptions, ...] = (
    Interruptions("faulty GPU", "gpu", 148),
    Interruptions("GPU HBM3 memory", "gpu", 72),
    Interruptions("software bug", "dependency", 54),
    Interruptions("network switch or cable", "network", 35),
    Interruptions("host maintenance", "maintenance", 32),
    Interruptions("GPU SRAM memory", "gpu", 19),
    Interruptions("GPU system processor", "gpu", 17),
    Interruptions("NIC", "host", 7),
    Interruptions("NCCL watchdog timeout", "unknown", 7),
    Interruptions("silent data corruption", "gpu", 6),
    Interruptions("GPU thermal interface and sensor", "gpu", 6),
    Interruptions("SSD", "host", 3),
    Interruptions("power supply", "host", 3),
    Interruptions("server chassis", "host", 2),
    Interruptions("IO expansion board", "host", 2),
    Interruptions("dependency", "dependency", 2),
    Interruptions("CPU", "host", 2),
    Interruptions("system memory", "host", 2),
)
"""The 419 unexpected interruptions of 54 days on 16,384 GPUs: table 5 of "The Llama 3 Herd of Models"
(https://arxiv.org/abs/2407.21783).

Use the counts. The percentages printed beside them do not fit: 148 of 419 are 35.3 %, not the 30.1 % of the table, and
all GPU lines together are 268 of 419, 64.0 %, not the 58.7 % of its text."""
