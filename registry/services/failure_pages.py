# SPDX-License-Identifier: Apache-2.0
"""Which faults are on record, and what is told of one?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry.domain.errors import NotFound
from registry.domain.times import rfc3339, rfc3339_or_none
from registry.services.pages import Page, PageRequest, page_of, slice_of
from registry.services.targets import get_unit
from registry.store import devices, failures, nodes, search
from registry.store.database import Database, Snapshot
from registry.store.failures import Failure


def list_failures(db: Database, filters: Mapping[str, str], page: PageRequest) -> Page:
    """Return faults by any of their fields; `device` takes our id, a serial or a UUID."""
    with db.read() as snapshot:
        wanted = {**filters}
        if "device" in wanted:
            wanted["device"] = get_unit(snapshot, wanted["device"]).id
        rows = search.list_failures(snapshot, wanted, slice_of(page))
        return page_of(rows, page, lambda one: str(one.id), lambda one: shown(snapshot, one))


def show_failure(db: Database, id_: str) -> dict[str, Any]:
    """Return one fault, withdrawn or not, by our id. Raises NotFound."""
    with db.read() as snapshot:
        return shown(snapshot, get_failure(snapshot, id_))


def get_failure(snapshot: Snapshot, id_: str) -> Failure:
    """Return the fault with our id. Raises NotFound."""
    failure = failures.find_failure(snapshot, id_)
    if failure is None:
        raise NotFound(f"There is no failure {id_}.")
    return failure


def shown(snapshot: Snapshot, failure: Failure) -> dict[str, Any]:
    """Give a fault as the API answers it."""
    node = nodes.get_node_by_id(snapshot, failure.node_id) if failure.node_id else None
    device = devices.get_devices(snapshot, [failure.device_id]).get(failure.device_id) if failure.device_id else None
    return {
        "id": failure.id,
        "failure_id": failure.failure_id,
        "code": failure.code,
        "kind": failure.kind,
        "cause": failure.cause,
        "severity": failure.severity,
        "effect": failure.effect,
        "muted": failure.muted,
        "state": failure.state,
        "device": device.id if device else None,
        "serial": device.serial if device else None,
        "uuid": device.uuid if device else None,
        "ref": failure.ref,
        "node": node.name if node else None,
        "slot": failure.slot,
        "attached": not failure.is_unattached,
        "occurred_at": rfc3339_or_none(failure.occurred_at),
        "recorded_at": rfc3339(failure.recorded_at),
        "count": failure.count,
        "last_at": rfc3339(failure.last_at),
        "reporter": failure.reporter,
        "message": failure.message,
        "evidence": failure.evidence,
    }
