# SPDX-License-Identifier: Apache-2.0
"""Which restart comes after the fault that a hold waits to be cured of, and which fault is the newest of it?

A boot is known from its first report on, and what a log tells of it is often older: it is the boot's all the same.
"""

from __future__ import annotations

from datetime import datetime

from registry.domain.quarantine import BootSeen, is_later_boot
from registry.store import nodes
from registry.store.database import Snapshot
from registry.store.nodes import Boot


def is_boot_after(snapshot: Snapshot, boot: Boot, fault_at: datetime, fault_boot: str | None) -> bool:
    """Tell whether a boot comes after a fault; `fault_boot` is our id of the boot that showed it, where known."""
    shown_by = _seen(nodes.get_boot(snapshot, fault_boot)) if fault_boot else None
    return is_later_boot(_seen(boot), fault_at=fault_at, fault_boot=shown_by)


def is_before(snapshot: Snapshot, fault_at: datetime, fault_boot: str | None, restart_at: datetime | None) -> bool:
    """Tell whether a fault that is told now was cured by a restart that has been counted already."""
    if restart_at is None or fault_at >= restart_at:
        return False
    return fault_boot is None or nodes.get_boot(snapshot, fault_boot).started_at != restart_at


def newest(
    snapshot: Snapshot, known: tuple[datetime, str | None], told: tuple[datetime, str | None]
) -> tuple[datetime, str | None]:
    """Join the time and the boot of the fault on record with those of one that is told now."""
    boots = [nodes.get_boot(snapshot, one) for one in {known[1], told[1]} if one]
    last = max(boots, key=lambda one: (one.started_at, one.id), default=None)
    return max(known[0], told[0]), last.id if last else None


def _seen(boot: Boot) -> BootSeen:
    return BootSeen(boot.id, boot.boot_id, boot.started_at)
