# SPDX-License-Identifier: Apache-2.0
"""Row 12: may anybody do what their role, or what they own, does not allow, and does a secret stand anywhere?

Every route is tried with every role and without one; then nodes try what belongs to other nodes. All that was answered
and logged, and all that stands in the database, is searched for every secret there is.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from api.context import standing
from registry.admin.logs import JsonFormatter
from registry.domain.roles import Role
from registry.store.database import Database
from tests.api.conftest import PEPPER, Asker
from tests.api.test_roles import OPEN_TO_ALL, ROUTES
from tests.api.v1.fleet import SERIALS, admit, report
from tests.scorecard.application import SIGNING_KEY, Application, application
from tests.scorecard.measured import Measured, Progress

PARTS = (
    *("<node>", "<path:ref>", "<failure>", "<quarantine_id>", "<conflict>", "<name>", "<token>"),
    *("<job>", "<job_failure>", "<repair>", "<webhook>"),
)
LETTERS = "ghjkmnpqrstvwxyz"
"""Of which an unknown name is made."""


class Lines(logging.Handler):
    """Keeps what the server would have written to its log."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(JsonFormatter())
        self.written: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self.written.append(self.format(record))


@contextmanager
def listening() -> Iterator[list[str]]:
    """Keep the log while the block lasts."""
    handler, root = Lines(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield handler.written
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Try `n` requests: the whole matrix once, then again with names drawn by chance."""
    random, wrong, seen = Random(seed), Counter[str](), Counter[str]()
    wrong.update(dict.fromkeys(("allowed wrongly", "refused wrongly", "allowed on another's", "secrets found"), 0))
    answers: list[str] = []
    with application(engine) as house, listening() as log:
        secrets = {
            role: house.secret(role, node="node-a" if role is Role.NODE else None, names="node-a*") for role in Role
        }
        askers = {role: house.asker(secret) for role, secret in secrets.items()}
        admit(askers[Role.ADMIN], askers[Role.NODE], house.clock)
        done = 0
        while done < n:
            for role, route in _matrix():
                if done == n:
                    break
                _try(askers.get(role) if role else house.asker(None), role, route, random, wrong, answers)
                done += 1
                progress(1)
        _others(house, askers, wrong, seen, answers)
        known = {*secrets.values(), PEPPER, SIGNING_KEY}
        rows = dump(standing(house.app).database)
        if not search({SERIALS[0]}, rows) or not search({"/v1/nodes/node-a/reports"}, log):
            raise AssertionError("what is known to stand there is not found: the search sees nothing")
        wrong["secrets found"] += search(known, [*answers, *log, *rows])
        seen.update(
            {
                "requests": done,
                "log lines searched": len(log),
                "answers searched": len(answers),
                "rows searched": len(rows),
            }
        )
    return Measured(n, wrong, seen)


def _matrix() -> list[tuple[Role | None, str]]:
    return [(role, route) for role in (None, *Role) for route in (*ROUTES, *sorted(OPEN_TO_ALL))]


def _try(
    asker: Asker | None, role: Role | None, route: str, random: Random, wrong: Counter[str], answers: list[str]
) -> None:
    assert asker is not None
    method, path = route.split()
    # A node's token is good for its own node, and asks for that one here; what is not its own is tried apart.
    for part in PARTS:
        word = "node-a" if role is Role.NODE and part == "<node>" else "".join(random.choices(LETTERS, k=8))
        path = path.replace(part, word)
    response = asker.ask(method, path.replace("<secret>", "{secret}"))
    answers.append(response.get_data(as_text=True) if response.status_code >= 400 else "")
    if route in OPEN_TO_ALL:
        wrong["refused wrongly"] += response.status_code in {401, 403}
        return
    expected = 401 if role is None else 403
    is_refused = response.status_code == expected
    is_allowed = role is not None and role in ROUTES[route]
    wrong["allowed wrongly"] += not is_allowed and not is_refused
    wrong["refused wrongly"] += is_allowed and response.status_code in {401, 403}


def _others(
    house: Application, askers: dict[Role, Asker], wrong: Counter[str], seen: Counter[str], answers: list[str]
) -> None:
    """Node B and a token to join try what is node A's."""
    other = house.asker(house.secret(Role.NODE, name="b", node="node-b"))
    fault = {"failure_id": "f-b", "device": SERIALS[0], "code": "xid_79", "occurred_at": "2026-11-29T12:00:00Z"}
    tries = [
        (other, "POST", "/v1/nodes/node-a/reports", report()),
        (other, "GET", "/v1/nodes/node-a/admission", None),
        (other, "POST", "/v1/failures", fault),
        (other, "POST", "/v1/failures", {**fault, "device": None, "node": "node-a"}),
        (askers[Role.JOIN], "POST", "/v1/join", {"node": "node-z", "provider_id": "i-9"}),
        (askers[Role.JOIN], "POST", "/v1/join", {"node": "other-1", "provider_id": "i-9"}),
    ]
    # A token that stands where none belongs.
    shown = askers[Role.AUDITOR].headers["Authorization"].partition(" ")[2]
    askers[Role.ADMIN].get(f"/v1/devices/{shown}")
    askers[Role.ADMIN].get(f"/v1/nodes?name={shown}")
    before = askers[Role.ADMIN].get("/v1/failures").json["items"]
    for asker, method, path, body in tries:
        given = {name: value for name, value in (body or {}).items() if value is not None}
        response = asker.ask(method, path, json=given) if body else asker.ask(method, path)
        answers.append(response.get_data(as_text=True))
        wrong["allowed on another's"] += response.status_code not in {401, 403, 422}
        seen["tries on another's"] += 1
    wrong["allowed on another's"] += askers[Role.ADMIN].get("/v1/failures").json["items"] != before


def dump(db: Database) -> list[str]:
    """All that stands in all tables, as text."""
    names = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
        "postgresql": "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
    }
    with db.read() as snapshot:
        tables = [name for (name,) in snapshot.all(names[db.engine])]
        return [repr(row) for table in tables for row in snapshot.all(f'SELECT * FROM "{table}"')]  # noqa: S608


def search(secrets: set[str], texts: list[str]) -> int:
    """Count the texts in which a secret stands, whole or but for its checksum."""
    parts = {secret[: max(24, len(secret) - 6)] for secret in secrets}  # the end may be cut off
    return sum(any(part in text for part in parts) for text in texts)
