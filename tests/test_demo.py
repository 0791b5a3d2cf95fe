# SPDX-License-Identifier: Apache-2.0
"""Does the demo end by itself with the story told, and does `--keep` leave a server that can be used?"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import requests

from registry.admin.demo_hardware import make_machine

pytestmark = pytest.mark.slow

PATIENCE = 120


def run_demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "registry.main", "demo", *arguments]
    # A setting of the caller must not reach the demo's server.
    environment = {**os.environ, "TMPDIR": str(folder), "PRATIQUE_PASS_COUNT": "99"}
    return subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_the_demo_tells_the_story_and_leaves_nothing(tmp_path: Path) -> None:
    done = run_demo(tmp_path)

    told = done.stdout
    bad = make_machine("node-a", 1).gpus[3].serial
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"[0-9]{13}", bad)
    assert in_order(
        told,
        "passes_insufficient",
        "node-a: ADMITTED",
        "failure recorded: xid_79",
        "owner rule:xid_79",
        f"device_quarantined: GPU {bad}",
        "node-b: NOT ADMITTED",
        f"device_quarantined: GPU {bad}",
        "node-a: ADMITTED",
        "released",
        "node-b: ADMITTED",
        "quarantine.opened",
        "quarantine.released",
        "the chain holds",
    )
    assert list(tmp_path.iterdir()) == []


def test_keep_leaves_a_server_and_a_token_for_each_role(tmp_path: Path) -> None:
    done = run_demo(tmp_path, "--keep")

    assert done.returncode == 0, done.stdout + done.stderr
    process_id = int(found(r"process id ([0-9]+)\s", done.stdout))
    try:
        url = found(r"(http://127\.0\.0\.1:[0-9]+)\s", done.stdout[done.stdout.index("stays up") :])
        assert requests.get(found(r"(http\S+/console/) shows", done.stdout), timeout=10).url.startswith(
            f"{url}/console/login"
        )
        tokens = {token.split("_")[1]: token for token in re.findall(r"(prq_[a-z]+_\S+)\s", done.stdout)}
        assert set(tokens) == {"operator", "auditor", "admin", "webhook", "node"}
        assert ask(url, "/v1/nodes", tokens["operator"]) == 200
        assert ask(url, "/v1/tokens", tokens["admin"]) == 200
        assert ask(url, "/v1/events", tokens["auditor"]) == 200
        assert ask(url, "/v1/nodes", tokens["node"]) == 403
        assert ask(url, "/v1/nodes", tokens["webhook"]) == 403
    finally:
        os.kill(process_id, signal.SIGTERM)
        ended = wait_for_end(process_id)
        shutil.rmtree(tmp_path)
    assert ended


def ask(url: str, path: str, token: str) -> int:
    return requests.get(url + path, headers={"Authorization": f"Bearer {token}"}, timeout=10).status_code


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    assert match, text
    return match[1]


def in_order(text: str, *words: str) -> bool:
    place = 0
    for word in words:
        place = text.find(word, place)
        assert place >= 0, f"{word!r} is missing, or comes too early, in:\n{text}"
        place += len(word)
    return True


def wait_for_end(process_id: int) -> bool:
    """The server is nobody's child here: it is asked for until it is gone (or a zombie that its parent left)."""
    for _ in range(300):
        try:
            state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False
