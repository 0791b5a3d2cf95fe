# SPDX-License-Identifier: Apache-2.0
"""What does the database say about itself: its version, whether it keeps its word, and who could lift the guards?"""

from __future__ import annotations

from dataclasses import dataclass

from registry.store.snapshots import Snapshot

_LAX = "SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name"
"""Settings without which a power loss may take what was acknowledged, or leave torn pages:
https://www.postgresql.org/docs/current/runtime-config-wal.html."""

_MAY_LIFT_GUARDS = "SELECT pg_has_role(relowner, 'MEMBER') FROM pg_class WHERE oid = to_regclass('event')"
"""Whoever owns a table may disable its triggers: https://www.postgresql.org/docs/current/sql-altertable.html."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What the database says. `journal` is SQLite's mode in force; the last two are about PostgreSQL."""

    version: str
    journal: str | None = None
    lax_settings: tuple[str, ...] = ()
    may_lift_guards: bool = False


def describe(snapshot: Snapshot) -> ServerFacts:
    """Ask the database, SQLite or PostgreSQL, about itself."""
    if snapshot.engine == "sqlite":
        row = snapshot.one("SELECT sqlite_version(), journal_mode FROM pragma_journal_mode")
        version, journal = row or ("", "")
        return ServerFacts(str(version), journal=str(journal))
    version_row = snapshot.one("SELECT current_setting('server_version')") or ("",)
    owner_row = snapshot.one(_MAY_LIFT_GUARDS) or (False,)
    lax = tuple(str(name) for (name,) in snapshot.all(_LAX))
    return ServerFacts(str(version_row[0]), lax_settings=lax, may_lift_guards=bool(owner_row[0]))
