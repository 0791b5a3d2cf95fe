# SPDX-License-Identifier: Apache-2.0
"""What is the least that may mend a failure, and what is next when that did not?

The ladder: `kill_job`, `move_job`, `reset_gpu`, `reboot_node`, `replace_node`, `return_device`. A fault begins on the
step that its code, its check or the driver's own word asks for. It steps up when it stands again, or still, after an
action whose window is not over. Replacing and returning are for hardware that failed a test the policy trusts, or that
the lower steps did not mend. What nobody can look at is never repaired.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from registry.domain.condition_shown import Condition, ConditionStatus
from registry.domain.failures import Cause, FirstAction
from registry.domain.policy import Policy
from registry.domain.reports import Kind
from registry.domain.times import brief
from registry.domain.tolerances import FLAPPING
from registry.domain.vendor_words import VENDOR


class Action(StrEnum):
    """The steps of the ladder, the mildest first."""

    KILL_JOB = "kill_job"
    """End and restart the program; the node stays as it is."""
    MOVE_JOB = "move_job"
    """Run the work elsewhere, and look at this node in peace."""
    RESET_GPU = "reset_gpu"
    """Take the work off the device and reset it."""
    REBOOT_NODE = "reboot_node"
    """Take the work off the node and boot it."""
    REPLACE_NODE = "replace_node"
    """Give the machine back for another; the device stays held."""
    RETURN_DEVICE = "return_device"
    """Send the board to its maker."""

    @property
    def rank(self) -> int:
        """Place on the ladder, 0 for the lowest step. Compare ranks: members compare as text."""
        return _LADDER.index(self)

    @property
    def is_of_device(self) -> bool:
        """True for what is done to one device and not to its node."""
        return self in {Action.RESET_GPU, Action.RETURN_DEVICE}

    @property
    def opens_quarantine(self) -> bool:
        """True for what gives hardware away that must not come back unseen."""
        return self.rank >= Action.REPLACE_NODE.rank


_LADDER = tuple(Action)


class RecoveryAction(StrEnum):
    """What the driver itself asks for, in the words of NVML and of Xid 154.

    https://docs.nvidia.com/deploy/nvml-api/group__nvmlFieldValueEnums.html
    """

    NONE = "none"
    """Nothing."""
    GPU_RESET = "gpu_reset"
    """A reset."""
    NODE_REBOOT = "node_reboot"
    """A boot of the node."""
    DRAIN_P2P = "drain_p2p"
    """That no other device talks to it."""
    DRAIN_AND_RESET = "drain_and_reset"
    """A reset once its work is done."""


ASKED_BY_DRIVER: Mapping[RecoveryAction, Action | None] = MappingProxyType(
    {
        RecoveryAction.NONE: None,
        RecoveryAction.GPU_RESET: Action.RESET_GPU,
        RecoveryAction.NODE_REBOOT: Action.REBOOT_NODE,
        RecoveryAction.DRAIN_P2P: Action.MOVE_JOB,
        RecoveryAction.DRAIN_AND_RESET: Action.RESET_GPU,
    }
)
"""The step that does what the driver asks for."""

_RECOVERY_WORDS: Mapping[str, RecoveryAction] = MappingProxyType(
    {
        "drain and reset": RecoveryAction.DRAIN_AND_RESET,
        "drain p2p": RecoveryAction.DRAIN_P2P,
        "reboot": RecoveryAction.NODE_REBOOT,
        "reset": RecoveryAction.GPU_RESET,
    }
)
"""How nvidia-smi prints it, alone or with the thing before and "Required" after it; the longer words first."""

ASKED_BY_BUCKET: Mapping[str, Action] = MappingProxyType(
    {
        "RESTART_APP": Action.KILL_JOB,
        "RESET_GPU": Action.RESET_GPU,
        "RESET": Action.RESET_GPU,
        "WORKFLOW_XID_48": Action.RESET_GPU,
        "WORKFLOW_NVLINK_ERR": Action.RESET_GPU,
        "WORKFLOW_NVLINK5_ERR": Action.RESET_GPU,
        "RESTART_VM": Action.REBOOT_NODE,
        "RESTART_BM": Action.REBOOT_NODE,
    }
)
"""The step of NVIDIA's immediate action: what is tried before hardware is given away on the word of a code alone."""

ASKED_BY_CHECK: Mapping[str, Action] = MappingProxyType(
    {
        "gpu.ecc": Action.RESET_GPU,
        "gpu.row_remap": Action.RESET_GPU,
        "gpu.recovery_action": Action.RESET_GPU,
        "gpu.nvlink": Action.RESET_GPU,
        "gpu.xid": Action.RESET_GPU,
        "gpu.count": Action.REBOOT_NODE,
        "gpu.responding": Action.REBOOT_NODE,
        "efa.count": Action.REBOOT_NODE,
        "efa.link": Action.REBOOT_NODE,
    }
)
"""Where to begin when a check fails and names no code. What is not here begins with the job moved away, and one of a
Kubernetes Node with a boot, where Karpenter and EKS replace at once:
https://karpenter.sh/docs/concepts/disruption/#node-auto-repair"""

_BUILT_IN_CONDITION = "condition."
_HARMLESS_CAUSES = frozenset({Cause.USER})
"""Whose faults touch no hardware: at most the work goes elsewhere, unless test or driver say that there is more."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A condition in failure as the ladder looks at it. `code` is a fault code, where its reason is one.

    `kind` is that of the device that it names, None for the node. `recovery` is the driver's word on that device.
    `is_proven`: a test that the policy trusts has failed on this hardware and not passed since.
    """

    condition: str
    code: str | None = None
    kind: str | None = None
    recovery: RecoveryAction = RecoveryAction.NONE
    is_proven: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """An action that was carried out, or tried in vain, for a condition of this device or node."""

    action: Action
    condition: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to do, with the sentence that says why. Without an action it says why nothing is to be done.

    `not_before` is when to think again, where time alone can change the answer.
    """

    action: Action | None
    because: str
    not_before: datetime | None = None


def fault_of(
    condition: Condition, *, recovery: RecoveryAction = RecoveryAction.NONE, is_proven: bool = False, policy: Policy
) -> Fault | None:
    """Read a condition as a fault to repair. None for what is no failure: a problem, and what nobody can look at."""
    if condition.status is not ConditionStatus.FAILURE:
        return None
    base = condition.name.removesuffix(FLAPPING)
    code = condition.reason if policy.knows(condition.reason) else None
    kind = condition.device.kind if condition.device else None
    is_proven = is_proven or base in policy.repair_trusted_checks
    return Fault(condition.name, code, kind, recovery, is_proven)


def read_recovery(text: str) -> RecoveryAction:
    """Read what the driver asks for out of what a check says of it; `none` for words that are not known."""
    said = text.casefold()
    return next((action for word, action in _RECOVERY_WORDS.items() if word in said), RecoveryAction.NONE)


def propose(fault: Fault, past: Iterable[Done], *, policy: Policy, now: datetime) -> Proposal:
    """Give the least action that fits a failure that stands now, after what was done for it in the `past`."""
    mine = [one for one in past if one.condition == fault.condition and one.at <= now]
    settled_at = max((one.at for one in mine), default=None)
    pause = timedelta(seconds=policy.repair_settle_seconds)
    if settled_at is not None and now < settled_at + pause:
        until = settled_at + pause
        return Proposal(None, f"An action ended at {brief(settled_at)}: it has until {brief(until)} to show.", until)
    tried = [one for one in mine if now < one.at + window_of(one.action, policy)]
    wanted, because = first_step(fault, policy)
    highest = max(tried, key=lambda one: one.action.rank, default=None)
    if highest is None or highest.action.rank < wanted.rank:
        return Proposal(wanted, because)
    above = [one for one in steps_for(fault, policy) if one.rank > highest.action.rank]
    again = f"{highest.action} at {brief(highest.at)} did not mend it"
    if not above:
        return Proposal(None, f"{again}, and no further step fits: a person has to look.")
    return Proposal(above[0], f"{again}: the next step is tried.")


def first_step(fault: Fault, policy: Policy) -> tuple[Action, str]:
    """Give where a fault begins on the ladder, and why."""
    asked, because = _asked(fault, policy)
    by_driver = ASKED_BY_DRIVER[fault.recovery]
    if by_driver is not None and by_driver.rank > asked.rank:
        asked, because = by_driver, f"The driver asks for it ({fault.recovery})."
    if fault.is_proven and fault.kind is not None and asked.rank < Action.REPLACE_NODE.rank:
        asked, because = Action.REPLACE_NODE, "A test that the policy trusts has failed on this hardware."
    if asked.rank >= Action.REPLACE_NODE.rank and not fault.is_proven:
        usual = Action.RESET_GPU if asked is Action.RETURN_DEVICE else Action.REBOOT_NODE
        asked = ASKED_BY_BUCKET.get(VENDOR.get(fault.code or "", ""), usual)
        because = f"{because} No trusted test has failed yet, so the lower steps come first."
    fitting = steps_for(fault, policy)
    # Where the very step does not fit this sort of thing, the next one above it is the least that does.
    return next((one for one in fitting if one.rank >= asked.rank), fitting[-1]), because


def steps_for(fault: Fault, policy: Policy) -> tuple[Action, ...]:
    """Give the steps that can be taken for a fault, lowest first: not every thing can be reset or returned."""
    kind = policy.look_up(fault.code) if fault.code else None
    is_vouched = fault.is_proven or ASKED_BY_DRIVER[fault.recovery] is not None
    if kind is not None and kind.cause in _HARMLESS_CAUSES and not is_vouched:
        return (Action.KILL_JOB, Action.MOVE_JOB)
    is_gpu = fault.kind == Kind.GPU
    return tuple(one for one in _LADDER if is_gpu or not one.is_of_device)


def window_of(action: Action, policy: Policy) -> timedelta:
    """Give how long after an action the same fault counts as returned. What was returned is for ever gone."""
    hours = {
        Action.KILL_JOB: policy.repair_kill_job_hours,
        Action.MOVE_JOB: policy.repair_move_job_hours,
        Action.RESET_GPU: policy.repair_reset_gpu_hours,
        Action.REBOOT_NODE: policy.repair_reboot_node_hours,
        Action.REPLACE_NODE: policy.repair_replace_node_hours,
    }
    return timedelta(hours=hours.get(action, policy.repair_replace_node_hours))


def _asked(fault: Fault, policy: Policy) -> tuple[Action, str]:
    """What code or check ask for, before anything else is looked at."""
    if fault.code is not None:
        kind = policy.look_up(fault.code)
        told = f"{fault.code}: {kind.title}."
        if kind.first_action is FirstAction.CONTACT_SUPPORT:
            return Action.MOVE_JOB, f"{told} No step is known to mend it, so the work goes elsewhere."
        if kind.first_action is not FirstAction.NONE:
            return Action(kind.first_action.value), told
    base = fault.condition.removesuffix(FLAPPING)
    by_check = ASKED_BY_CHECK.get(base)
    if by_check is None:
        is_of_cluster = base.startswith(_BUILT_IN_CONDITION)
        by_check = Action.REBOOT_NODE if is_of_cluster else Action.MOVE_JOB
    return by_check, f"{fault.condition} is in failure."
