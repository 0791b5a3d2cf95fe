# SPDX-License-Identifier: Apache-2.0
"""What is seen of a server with several workers: numbers that add up, and a log that a program can read?"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import requests

from registry.admin.demo_server import RunningServer, Stage, start_server

pytestmark = pytest.mark.slow

ASKED = 60
SERIES = 'pratique_requests_total{method="GET",role="operator",route="/v1/nodes",status="200"}'


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage.set_up(tmp_path)


@pytest.fixture
def server(stage: Stage) -> Iterator[RunningServer]:
    running = start_server(stage)
    yield running
    running.stop()


def scrape(url: str) -> dict[str, str]:
    text = requests.get(f"{url}/metrics", timeout=10).text
    return dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))


def ask(server: RunningServer, token: str, times: int) -> set[int]:
    def once(_: int) -> int:
        return requests.get(
            f"{server.url}/v1/nodes", headers={"Authorization": f"Bearer {token}"}, timeout=10
        ).status_code

    with ThreadPoolExecutor(8) as pool:
        return set(pool.map(once, range(times)))


def test_every_worker_gives_the_sum_of_all(server: RunningServer, stage: Stage) -> None:
    token = stage.make_tokens(nodes=())["operator"]
    assert ask(server, token, ASKED) == {200}

    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(lambda _: scrape(server.url), range(16)))

    assert {float(one[SERIES]) for one in seen} == {ASKED}
    assert {one["pratique_store_up"] for one in seen} == {"1.0"}


def test_a_server_that_is_started_again_counts_from_nothing(stage: Stage) -> None:
    token = stage.make_tokens(nodes=())["operator"]
    for asked in (5, 3):
        server = start_server(stage)
        ask(server, token, asked)
        found = scrape(server.url)
        server.stop()

        assert float(found[SERIES]) == asked


def test_the_log_is_one_json_object_a_line_and_no_token_is_in_it(server: RunningServer, stage: Stage) -> None:
    token = stage.make_tokens(nodes=())["operator"]
    ask(server, token, 4)
    requests.get(f"{server.url}/v1/devices/{token}?token={token}", timeout=10)
    requests.get(f"{server.url}/v1/nodes", headers={"Authorization": f"Bearer {token}x"}, timeout=10)
    server.stop()

    log = (stage.folder / "server.log").read_text()
    lines = [json.loads(line) for line in log.splitlines()]
    asked = [one for one in lines if one["logger"] == "pratique.access"]
    assert not [one for one in lines if one["logger"] == "gunicorn.access"]  # one line for each request
    assert token[14:] not in log
    assert token[14:] not in (stage.folder / "server.out").read_text()
    assert {one["logger"] for one in lines} >= {"gunicorn.error", "pratique.access"}
    assert len(asked) == 6
    assert [one["digest"][:7] for one in lines if one["message"] == "policy in force"] == ["sha256:"]
    assert len({one["request_id"] for one in asked}) == 6


def test_metrics_have_an_address_of_their_own_when_they_are_given_one(stage: Stage) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    apart = replace(stage, environment={**stage.environment, "PRATIQUE_METRICS_BIND": f"127.0.0.1:{port}"})
    server = start_server(apart)
    try:
        assert float(scrape(f"http://127.0.0.1:{port}")["pratique_store_up"]) == 1
        assert requests.get(f"{server.url}/metrics", timeout=10).status_code == 404
        assert requests.get(f"http://127.0.0.1:{port}/health/live", timeout=10).status_code == 404
    finally:
        server.stop()
    assert f"metrics on http://127.0.0.1:{port}" in (stage.folder / "server.out").read_text()
