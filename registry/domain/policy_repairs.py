# SPDX-License-Identifier: Apache-2.0
"""Which numbers say how much may be repaired at once, how often, and what is tried next? A part of the policy."""

from __future__ import annotations

from dataclasses import dataclass

TRUSTED_CHECKS = ("dcgm.diag",)
"""The checks that are tests of the hardware itself, and are believed: NVIDIA's own diagnostics, run on an idle device.
https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/dcgm-diagnostics.html"""


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """The thresholds of repairs. Lengths of time are seconds unless the name says hours; shares are whole percents."""

    repair_enabled: bool = True
    """Whether anything is to be repaired at all. Off, orders are still planned and shown, and none becomes ready."""

    repair_fleet_nodes: int = 10
    """Nodes of the fleet that repairs may disturb at once: a number that people can still look after."""

    repair_fleet_percent: int = 5
    """Share of the fleet that repairs may disturb at once, rounded down, at least one node: the less counts."""

    repair_profile_nodes: int = 5
    """The same for the nodes of one profile, which one job may need all of."""

    repair_profile_percent: int = 10
    """Share of the nodes of one profile: they have the driver and its bugs in common."""

    repair_zone_nodes: int = 5
    """The same for one zone: where power or cooling is away no repair helps, and every one of them makes it worse."""

    repair_zone_percent: int = 20
    """Share of one zone, as the breaker has it for holds."""

    repair_hour_nodes: int = 20
    """Nodes whose repair may begin within an hour: what a limit held back must not come all at once when it lets go."""

    repair_lease_seconds: int = 1800
    """How long whoever claimed an order may be silent before another may: a reboot with its drain takes less."""

    repair_attempts: int = 3
    """Claims of one order that may come to nothing before it has failed: the fault lies with who carries it out."""

    repair_settle_seconds: int = 900
    """How long after an action the same condition is not acted on again, and how long the node counts as disturbed if
    it is not back: a node boots, is looked at and brings its passes in less."""

    repair_kill_job_hours: int = 1
    """A fault that returns within this time after its job was killed was not the job's: the next action is tried."""

    repair_move_job_hours: int = 6
    """The same after the job was moved away."""

    repair_reset_gpu_hours: int = 24
    """The same after a reset: what a reset cures for less than a day it does not cure."""

    repair_reboot_node_hours: int = 168
    """The same after a reboot: a week is longer than most jobs, and shorter than the time to the next chance fault."""

    repair_replace_node_hours: int = 672
    """The same after the node was replaced: 28 days, over which Meta looks for lemons. https://arxiv.org/abs/2410.21680"""

    detector_window_seconds: int = 600
    """Nodes that turn bad through one check within this time are counted together."""

    detector_nodes: int = 4
    """Nodes of which more may turn bad so before the check is suspected: real faults come singly."""

    detector_percent: int = 5
    """Share of the fleet that may turn bad so, rounded down; the larger limit counts, so that no small fleet stops."""

    repair_trusted_checks: tuple[str, ...] = TRUSTED_CHECKS
    """Tests whose failure proves hardware broken: without one nothing is replaced before lower steps were tried."""
