# SPDX-License-Identifier: Apache-2.0
"""Can this process answer, and if not, why?"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from registry.domain.errors import StoreUnavailable
from registry.domain.policy import Policy
from registry.domain.times import rfc3339
from registry.services import safe_mode
from registry.store import life, migrations
from registry.store.database import Database, sqlite_gate


def liveness() -> dict[str, Any]:
    """Say that the process runs. Asks nobody else, so that a slow database gets no process restarted."""
    return {"status": "ok"}


def readiness(db: Database, *, now: datetime, policy: Policy) -> dict[str, Any]:
    """Say whether requests can be answered; `status` is `ok`, `safe_mode` or `not_ready`, `faults` are sentences.

    In safe mode requests are answered and reports are kept, and nobody is admitted; `safe_mode` says what is lost.
    An old sign of life is a fault: it is written every few seconds, so writes fail, or nobody is left to try.
    """
    found: dict[str, Any] = {"status": "ok", "engine": db.engine, "faults": []}
    if db.engine == "sqlite":
        gate = sqlite_gate()
        found["sqlite"] = {"version": gate.version, "is_safe": gate.is_safe, "journal": gate.journal}
    try:
        found["faults"] = migrations.list_faults(db)
        if not found["faults"]:
            found |= _life(db, now, policy)
            if found["last_sign_at"] is not None and not found["is_beating"]:
                found["faults"] = [f"No sign of life was written since {found['last_sign_at']}: writes fail."]
    except StoreUnavailable:
        # Whoever asks has shown no token: which host did not answer, and why, is for the log.
        found["faults"] = ["The database cannot answer."]
    if found["faults"]:
        found["status"] = "not_ready"
    elif found["safe_mode"]:
        found["status"] = "safe_mode"
    return found


def _life(db: Database, now: datetime, policy: Policy) -> dict[str, Any]:
    with db.read() as snapshot:
        last = life.find_last_sign(snapshot)
        sequence = snapshot.sequence()
        lost = safe_mode.shown(safe_mode.list_standing(snapshot))
    is_fresh = last is not None and (now - last).total_seconds() <= policy.outage_gap_seconds
    told = rfc3339(last) if last else None
    return {"last_sign_at": told, "is_beating": is_fresh, "sequence": sequence, "safe_mode": lost}
