# SPDX-License-Identifier: Apache-2.0
"""Does an auditor get the newest checkpoint, proofs for it, and a verdict in bounded time?"""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask

from api.context import standing
from api.v1 import audit as door
from registry.config import Settings
from registry.domain.merkle import is_consistent, leaf_of, root_by_inclusion
from registry.services import checkpoints
from tests.api.conftest import Asker
from tests.clock import Clock
from tests.fleet import Fleet, serial
from tests.services.signed import write_many


@pytest.fixture
def fleet(app: Flask, clock: Clock) -> Fleet:
    """Nodes on the database of the application."""
    return Fleet(standing(app).database, clock)


def sign(fleet: Fleet, settings: Settings) -> dict[str, Any]:
    return checkpoints.sign(fleet.db, settings, now=fleet.clock.now).to_json()


def test_there_is_no_checkpoint_before_the_first(auditor: Asker) -> None:
    found = auditor.get("/v1/audit/checkpoint")

    assert (found.status_code, found.json["code"]) == (404, "not_found")


def test_the_newest_checkpoint_is_shown(auditor: Asker, fleet: Fleet, settings: Settings) -> None:
    fleet.report()
    sign(fleet, settings)
    newest = sign(fleet, settings)

    found = auditor.get("/v1/audit/checkpoint")

    assert (found.status_code, found.json) == (200, newest)
    assert list(found.json) == ["sequence", "hash", "root", "signed_at", "key", "signature"]


def test_each_entry_of_a_device_is_proved_to_whoever_has_a_checkpoint(
    auditor: Asker, fleet: Fleet, settings: Settings
) -> None:
    write_many(fleet.db, fleet.clock.now, 600)
    fleet.report()
    held = sign(fleet, settings)
    fleet.hold({"device": serial(0)})

    path = f"/v1/devices/{serial(0)}/history?proof={held['sequence']}"
    items = auditor.get(path).json["items"]

    proved = [one for one in items if one["proof"] is not None]
    assert len(proved) > 1
    assert [one["type"] for one in items if one["proof"] is None] == ["quarantine.opened"]
    for one in proved:
        assert one["proof"]["size"] == held["sequence"]
        hashes = [bytes.fromhex(text) for text in one["proof"]["path"]]
        root = root_by_inclusion(leaf_of(one["hash"]), one["sequence"] - 1, held["sequence"], hashes)
        assert root is not None
        assert root.hex() == held["root"]
    first = auditor.get(f"{path}&limit=1").json
    assert first["items"] == items[:1]
    assert auditor.get(f"{path}&limit=1&cursor={first['next']}").json["items"] == items[1:2]
    assert "proof" not in auditor.get(f"/v1/devices/{serial(0)}/history").json["items"][0]


@pytest.mark.parametrize("proof", ["999999", "x", "-1"])
def test_a_checkpoint_that_cannot_be_is_refused(auditor: Asker, fleet: Fleet, proof: str) -> None:
    fleet.report()

    found = auditor.get(f"/v1/devices/{serial(0)}/history?proof={proof}")

    assert (found.status_code, found.json["code"]) == (422, "invalid_field")


def test_a_long_history_is_verified_in_parts(
    auditor: Asker, fleet: Fleet, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "VERIFY_AT_ONCE", 40)
    write_many(fleet.db, fleet.clock.now, 50)
    sign(fleet, settings)

    first = auditor.get("/v1/audit/verify").json
    rest = auditor.get(f"/v1/audit/verify?after={first['next']}").json

    assert (first["ok"], first["entries"], first["next"], first["checkpoints"]) == (True, 40, 40, 0)
    assert (rest["ok"], rest["next"], rest["checkpoints"]) == (True, None, 1)
    assert first["entries"] + rest["entries"] == rest["head_sequence"]


def test_a_newer_checkpoint_is_proved_to_go_on_from_an_older_one(
    auditor: Asker, fleet: Fleet, settings: Settings
) -> None:
    write_many(fleet.db, fleet.clock.now, 300)
    old = sign(fleet, settings)
    write_many(fleet.db, fleet.clock.now, 500)
    new = sign(fleet, settings)

    found = auditor.get(f"/v1/audit/checkpoint?proof={old['sequence']}").json

    path = [bytes.fromhex(one) for one in found.pop("proof")["path"]]
    assert found == new
    roots = [bytes.fromhex(one["root"]) for one in (old, new)]
    assert is_consistent(old["sequence"], roots[0], new["sequence"], roots[1], path)
    assert not is_consistent(old["sequence"], roots[1], new["sequence"], roots[1], path)
    for wrong in (0, new["sequence"] + 1):
        assert auditor.get(f"/v1/audit/checkpoint?proof={wrong}").json["code"] == "invalid_field"


def test_nothing_is_said_of_what_is_beyond_the_head(auditor: Asker, fleet: Fleet) -> None:
    write_many(fleet.db, fleet.clock.now, 3)
    head = auditor.get("/v1/audit/verify").json["head_sequence"]

    at_head = auditor.get(f"/v1/audit/verify?after={head}").json
    beyond = auditor.get(f"/v1/audit/verify?after={head + 1}")

    assert (at_head["ok"], at_head["entries"], at_head["next"]) == (True, 0, None)
    assert (beyond.status_code, beyond.json["code"]) == (422, "invalid_field")
