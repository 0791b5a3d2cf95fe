# SPDX-License-Identifier: Apache-2.0
"""What may the role do that servers run as? Everything they need, and nothing that would take from the history."""

from __future__ import annotations

from typing import Any

from psycopg import sql

from registry.store.connections import Connections
from registry.store.engines import DRIVER_ERRORS, translate
from registry.store.migrations import GUARDED_TABLES, NotReady

_ONLY_READ = ("schema_migration",)
_STATEMENTS = (
    "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
    "GRANT SELECT ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",  # else it could not make a backup
    "REVOKE UPDATE, DELETE, TRUNCATE ON {guarded} FROM {role}",
    "REVOKE INSERT, UPDATE, DELETE, TRUNCATE ON {read} FROM {role}",
)


def grant_to(url: str, role: str) -> None:
    """Let a role that owns nothing serve the PostgreSQL database at `url`; doing it again changes nothing.

    It may add to the history and change nothing in it, and neither switch off nor drop a trigger. Raises NotReady when
    there is no such role or it owns the tables, StoreUnavailable.
    """
    connections = Connections(url)
    connection = connections.begin("BEGIN")
    try:
        _refuse_owner(connection, role)
        schema = connection.execute("SELECT current_schema()").fetchone()[0]
        known = {
            "schema": sql.Identifier(schema),
            "role": sql.Identifier(role),
            "guarded": sql.SQL(", ").join(map(sql.Identifier, GUARDED_TABLES)),
            "read": sql.SQL(", ").join(map(sql.Identifier, _ONLY_READ)),
        }
        for statement in _STATEMENTS:
            connection.execute(sql.SQL(statement).format(**known))
        connections.commit(connection)
    except DRIVER_ERRORS as error:
        raise translate(error) from error
    finally:
        connections.drop_all()


def _refuse_owner(connection: Any, role: str) -> None:
    """Raise NotReady for a role to which nothing can be refused."""
    row = connection.execute("SELECT oid FROM pg_roles WHERE rolname = %s", (role,)).fetchone()
    if row is None:
        raise NotReady([f"There is no role {role}: make it first, with `createuser {role}`."])
    owns = "SELECT pg_has_role(%s::oid, relowner, 'MEMBER') FROM pg_class WHERE oid = to_regclass('event')"
    found = connection.execute(owns, (row[0],)).fetchone()
    if found is None or found[0]:
        raise NotReady([f"The role {role} owns the tables, or may act as who does: nothing can be kept from it."])
