# SPDX-License-Identifier: Apache-2.0
"""Is the history whole?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from registry.store import history
from registry.store.database import Database


def verify(db: Database, progress: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Recompute the whole history in one snapshot, with flat memory; `progress` is told how many entries are done.

    Returns `ok`, `entries`, `head_sequence`, `head_hash`, and `bad` and `reason` of the first fault or null. A chain
    alone does not show that it was written anew from some entry on, or that its end was cut off.
    """
    with db.read() as snapshot:
        return history.verify_chain(snapshot, progress=progress).to_json()
