# SPDX-License-Identifier: Apache-2.0
"""Does the server listen when it says so, answer from every worker, and end when it is told to?"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from registry.admin.demo_server import RunningServer, Stage, start_server
from registry.client import Client, ServerUnreachable

pytestmark = pytest.mark.slow


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.set_up(tmp_path)


@pytest.fixture
def server(stage: Stage) -> Iterator[RunningServer]:
    running = start_server(stage)
    yield running
    running.stop()


def test_it_answers_as_soon_as_it_says_where(server: RunningServer) -> None:
    answer = requests.get(f"{server.url}/health/live", timeout=10)

    assert server.url.startswith("http://127.0.0.1:")
    assert answer.status_code == 200


def test_a_token_made_beside_it_is_good_at_once_in_every_worker(server: RunningServer, stage: Stage) -> None:
    token = stage.make_tokens(nodes=())["operator"]

    def ask(_: int) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return requests.get(f"{server.url}/v1/nodes", headers=headers, timeout=10).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(40))) == {200}


def test_it_ends_well_when_it_is_told_to(server: RunningServer) -> None:
    server.stop()

    assert server.process.returncode == 0
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{server.url}/health/live", timeout=10)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")
def test_it_speaks_tls_to_whoever_trusts_its_certificate(stage: Stage, tmp_path: Path) -> None:
    certificate, key = str(tmp_path / "server.crt"), str(tmp_path / "server.key")
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "1"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, *subject]
    subprocess.run(made, check=True, capture_output=True)
    token = stage.make_tokens(nodes=())["operator"]
    running = start_server(stage, "--tls-cert", certificate, "--tls-key", key)

    try:
        found = Client(running.url, token, ca_file=certificate).get("nodes")
        with pytest.raises(ServerUnreachable, match=r"(?i)certificate"):
            Client(running.url, token, retries=0).get("nodes")
    finally:
        running.stop()

    assert running.url.startswith("https://127.0.0.1:")
    assert found["items"] == []


def test_a_taken_port_is_told_and_ends_it(stage: Stage) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        command = [sys.executable, "-m", "registry.main", "serve", "--bind", bind, "--workers", "1"]

        done = subprocess.run(
            command, env=dict(stage.environment), capture_output=True, text=True, timeout=60, check=False
        )

    assert done.returncode != 0
    assert "listening on" not in done.stdout
    assert "in use" in done.stderr
