# SPDX-License-Identifier: Apache-2.0
"""What does the condition `PratiqueAdmitted` of a Kubernetes Node say, and when must it be written again?

What its fields mean: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/node-v1/#NodeStatus.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from registry.domain.decision import Disposition, ReasonCode
from registry.domain.tainting import Answer, Keep
from registry.domain.taints import CONDITION
from registry.domain.times import brief, parse_rfc3339

HEARTBEAT = timedelta(minutes=5)
"""How old the condition may become: as old as the kubelet lets a status that did not change
(`nodeStatusReportFrequency`, https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/)."""

MESSAGE_PAUSE = timedelta(minutes=1)
"""How long a new message waits while status and reason are the same: many name an age, which is new each time."""

MESSAGE_MAX = 4096
"""Characters of the message; a node with eight GPUs on hold says some 2,000."""

ADMITTED = "Admitted"

_PART = re.compile(r"[A-Za-z0-9]+")


class ConditionStatus(StrEnum):
    """Is the node admitted?"""

    TRUE = "True"
    """It may take work."""
    FALSE = "False"
    """It may not."""
    UNKNOWN = "Unknown"
    """Nobody can say, or it is not believed."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the condition is to say. `reason` is one word in CamelCase, `message` a text for people."""

    status: ConditionStatus
    reason: str
    message: str


def camel_case(code: str) -> str:
    """Write a reason code as Kubernetes writes reasons: `device_quarantined` as `DeviceQuarantined`."""
    return "".join(part[0].upper() + part[1:] for part in _PART.findall(code))


REPORT_STALE = camel_case(ReasonCode.REPORT_STALE)
"""The reason of a node that is held for its silence."""


def tell(answer: Answer | None, keep: Keep | None = None, detail: str = "") -> Told:
    """Say what an answer, or a reason to keep everything as it is, makes the condition say."""
    reasons = "; ".join(f"{code}: {message}" for code, message in (answer.reasons if answer else ()))
    if keep is not None or answer is None:
        why = " ".join(part for part in (detail, reasons) if part)
        return Told(ConditionStatus.UNKNOWN, str(keep or Keep.NO_DECISION), _cut(why))
    if answer.disposition is Disposition.ADMIT:
        return Told(ConditionStatus.TRUE, ADMITTED, "It may take work.")
    first = camel_case(answer.reasons[0][0]) if answer.reasons else ""
    return Told(ConditionStatus.FALSE, first or camel_case(str(answer.disposition)), _cut(reasons))


def condition_after(standing: Mapping[str, Any] | None, told: Told, now: datetime) -> dict[str, str] | None:
    """Return the condition to write, or None while the one that stands says it well enough.

    Its time of transition moves only with its status: tolerances of others are counted from there.
    """
    if standing is not None and not _is_due(standing, told, now):
        return None
    is_same = standing is not None and standing.get("status") == told.status
    since = standing.get("lastTransitionTime") if standing is not None and is_same else None
    return {
        "type": CONDITION,
        "status": str(told.status),
        "reason": told.reason,
        "message": told.message,
        "lastHeartbeatTime": brief(now),
        "lastTransitionTime": since if isinstance(since, str) and since else brief(now),
    }


def _is_due(standing: Mapping[str, Any], told: Told, now: datetime) -> bool:
    if (standing.get("status"), standing.get("reason")) != (told.status, told.reason):
        return True
    try:
        age = abs(now - parse_rfc3339(str(standing.get("lastHeartbeatTime"))))
    except ValueError:
        return True
    return age >= (HEARTBEAT if standing.get("message") == told.message else MESSAGE_PAUSE)


def _cut(message: str) -> str:
    return message if len(message) <= MESSAGE_MAX else f"{message[: MESSAGE_MAX - 1]}…"
