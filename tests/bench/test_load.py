# SPDX-License-Identifier: Apache-2.0
"""Is a fleet that was loaded in bulk one that the services would have made?"""

from __future__ import annotations

from datetime import UTC, datetime

from registry.domain.policy import Policy
from registry.services.admission import decide_admission
from registry.services.heartbeat import accept_unchanged
from registry.services.tokens import authenticate
from registry.store.database import open_database
from registry.store.verifying import verify_chain
from tests.bench import load, machine, template

PEPPER = b"p" * 32
TINY = load.Size("tiny", devices=4 * machine.DEVICES, events=4 * 100)


def test_a_loaded_fleet_is_what_the_services_would_have_made(empty_database_url: str) -> None:
    load.fill(empty_database_url, TINY, PEPPER)
    db = open_database(empty_database_url)
    now = datetime.now(UTC)

    with db.read() as snapshot:
        verified = verify_chain(snapshot)
        devices = snapshot.all("SELECT COUNT(*) FROM device")
    admitted = [decide_admission(db, machine.node_name(at), policy=Policy(), now=now).admitted for at in range(4)]
    seen, _ = template.report_said(1, "again")
    same = accept_unchanged(db, seen, policy=Policy(), now=now).answer
    caller = authenticate(db, machine.secret(2), PEPPER)
    db.close_all()

    assert verified.ok, verified.reason
    assert verified.entries == TINY.events + 1  # and one hold
    assert devices == [(TINY.devices,)]
    assert admitted == [True, True, True, False]
    assert same is not None
    assert caller.node == machine.node_name(2)
