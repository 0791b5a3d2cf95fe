# SPDX-License-Identifier: Apache-2.0
"""Does a server on restored records, which lack a hold, admit nobody until somebody takes note of the loss?"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from registry.admin.demo_server import RunningServer, Stage, start_server
from registry.client import Client

pytestmark = pytest.mark.slow

REPORT = {
    "boot_id": "boot-1",
    "provider_id": "i-1",
    "profile": "g5.xlarge",
    "covers": ["gpu"],
    "devices": [
        {"kind": "gpu", "vendor": "nvidia", "serial": "1650000000001", "uuid": "GPU-1", "slot": "0000:10:00.0"},
    ],
    "checks": [{"name": name, "status": "pass"} for name in ("gpu.ecc", "gpu.row_remap", "gpu.xid")],
}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    made = Stage.set_up(tmp_path / "data")
    return Stage(made.folder, {**made.environment, "PRATIQUE_PASS_GAP_SECONDS": "0"}, made.settings)


@contextmanager
def running(stage: Stage) -> Iterator[RunningServer]:
    server = start_server(stage)
    try:
        yield server
    finally:
        server.stop()


def pratique(stage: Stage, *words: str) -> str:
    """Run a command on the server's host."""
    command = [sys.executable, "-m", "registry.main", *words]
    done = subprocess.run(command, env=dict(stage.environment), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def report(client: Client, number: int) -> dict[str, Any]:
    answer: dict[str, Any] = client.post("nodes", "node-a", "reports", body={**REPORT, "report_id": f"r-{number}"})
    return answer["admission"]


def test_a_hold_that_a_restore_lost_admits_nobody_in_silence(stage: Stage, tmp_path: Path) -> None:
    secrets = stage.make_tokens(nodes=("node-a",))
    root = pratique(stage, "token", "create", "--role", "admin", "--name", "root").strip()
    backup = str(tmp_path / "backup")
    with running(stage) as server:
        node = Client(server.url, secrets["node-a"])
        report(node, 1)
        assert report(node, 2)["admitted"]
        pratique(stage, "backup", backup)
        hold = {"targets": [{"device": "1650000000001"}], "reason": "fell off the bus"}
        Client(server.url, secrets["operator"]).post("quarantines", body=hold)
        pratique(stage, "audit", "checkpoint")
        refused = subprocess.run(
            [sys.executable, "-m", "registry.main", "restore", "--replace", "--yes", backup],
            env=dict(stage.environment),
            capture_output=True,
            text=True,
            check=False,
        )
        assert refused.returncode == 1
        assert "A server runs" in refused.stderr
    for end in ("", "-wal", "-shm"):  # the disk is lost, and with it all but the backup, the keys and the checkpoints
        (stage.folder / f"pratique.db{end}").unlink(missing_ok=True)

    assert "Lost: entries" in pratique(stage, "restore", backup)
    with running(stage) as server:
        codes = [one["code"] for one in report(Client(server.url, secrets["node-a"]), 3)["reasons"]]
        assert codes == ["service_safe_mode"]
    stage.settings.checkpoint_file.unlink()  # type: ignore[union-attr]
    with running(stage) as server:
        assert requests.get(f"{server.url}/health/ready", timeout=10).json()["status"] == "safe_mode"
        Client(server.url, root).post("service", "acknowledge", body={"reason": "held again by hand"})
        assert report(Client(server.url, secrets["node-a"]), 4)["admitted"]
        assert requests.get(f"{server.url}/health/ready", timeout=10).json()["status"] == "ok"


def test_a_copy_that_was_put_back_by_hand_is_noticed_too(stage: Stage, tmp_path: Path) -> None:
    """Nobody ran `pratique restore`."""
    backup = tmp_path / "backup"
    pratique(stage, "backup", str(backup))
    pratique(stage, "token", "create", "--role", "operator", "--name", "carol")
    pratique(stage, "audit", "checkpoint")
    for end in ("-wal", "-shm"):
        (stage.folder / f"pratique.db{end}").unlink(missing_ok=True)
    (stage.folder / "pratique.db").write_bytes(backup.read_bytes())

    with running(stage) as server:
        told = requests.get(f"{server.url}/health/ready", timeout=10).json()
        log = (stage.folder / "server.log").read_text()

    assert told["status"] == "safe_mode"
    assert told["safe_mode"][0]["cause"] == "ends_early"
    assert "Nobody is admitted until" in log
    assert "SQLite" in log
