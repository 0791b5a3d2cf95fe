# SPDX-License-Identifier: Apache-2.0
"""How does a person keep out what a page is about, and let it go again?"""

from __future__ import annotations

from api.console.forms import refuse
from api.context import actor, caller, database, now
from registry.services import quarantine
from registry.services.quarantine import OpenQuarantines


def keep_out(command: OpenQuarantines, *, kind: str, name: str, about: str) -> str:
    """Hold the one target of a command and say what came of it. Raises InvalidField about the field, when refused."""
    item = quarantine.open_quarantines(database(), command, actor=actor(), now=now())[0]
    if item["outcome"] == "refused":
        raise refuse(about, str(item["message"]))
    known = f"You hold this {kind} already." if item["outcome"] == "already_open" else f"{name} is on hold."
    return f"{known} {item.get('message') or ''}".strip()


def let_go(quarantine_id: str, reason: str) -> None:
    """End one hold. Raises NotFound, NotOpen, Forbidden for one that is permanent."""
    quarantine.release_quarantine(
        database(), quarantine_id, reason=reason, actor=actor(), role=caller().role, now=now()
    )
