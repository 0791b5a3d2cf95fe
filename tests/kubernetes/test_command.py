# SPDX-License-Identifier: Apache-2.0
"""Does the command find its cluster, wait and count as it says?"""

from __future__ import annotations

import os
import re
import threading
import time
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner

from registry.controller.api_server import ApiError, ApiServer
from registry.controller.bell import Bell
from registry.controller.cluster import Given, NoCluster, find_cluster
from registry.controller.meters import METERS, PREFIX, Meters, Window
from registry.domain.taints import TAINT_KEY
from registry.main import main
from tests.kubernetes.conftest import Start
from tests.kubernetes.emulator import Emulator
from tests.kubernetes.nodes import BORN, Cluster
from tests.kubernetes.running import wait_for
from tests.live.machines import Node
from tests.live.server import LiveServer

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """What a kubelet mounts into a pod."""
    for name, text in (("token", "first\n"), ("ca.crt", "…"), ("namespace", "elsewhere\n")):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_pod_finds_its_cluster_by_itself(account: Path) -> None:
    server, namespace = find_cluster(Given(), POD, account)

    assert (server.url, server.token_file, server.ca_file) == (
        "https://10.0.0.1:6443",
        account / "token",
        str(account / "ca.crt"),
    )
    assert namespace == "elsewhere"


def test_an_address_of_ipv6_stands_in_brackets(account: Path) -> None:
    assert find_cluster(Given(), {"KUBERNETES_SERVICE_HOST": "fd00::1"}, account)[0].url == "https://[fd00::1]:443"


def test_the_token_of_the_pod_goes_to_no_address_that_was_given(account: Path) -> None:
    server, namespace = find_cluster(Given("http://127.0.0.1:8001"), POD, account)

    assert (server.url, server.token_file, namespace) == ("http://127.0.0.1:8001", None, "pratique")


@pytest.mark.parametrize(
    ("given", "environ", "says"),
    [
        (Given(), {}, "--api-server"),
        (Given("ftp://x"), {}, "http://"),
        (Given("http://x", namespace="A b"), {}, "namespace"),
        (Given(api_token_file=Path("/nonexistent")), POD, "/nonexistent is missing"),
    ],
)
def test_what_is_missing_is_named(account: Path, given: Given, environ: dict[str, str], says: str) -> None:
    with pytest.raises(NoCluster, match=says):
        find_cluster(given, environ, account)


def test_outside_of_a_cluster_the_command_says_what_to_give() -> None:
    environment = {"PRATIQUE_URL": "http://127.0.0.1:1", "PRATIQUE_TOKEN": "t", "KUBERNETES_SERVICE_HOST": None}

    done = CliRunner(env=environment).invoke(main, ["controller"])

    assert done.exit_code == 2
    assert "--api-server" in done.stderr


@pytest.mark.parametrize(
    "option",
    [
        ("--node-name-from", "uid"),
        ("--metrics-bind", "9473"),
        *(("--interval", seconds) for seconds in ("0", "nan", "inf", "3600")),
    ],
)
def test_an_option_that_means_nothing_is_refused(option: tuple[str, str]) -> None:
    done = CliRunner(env={"PRATIQUE_URL": "http://127.0.0.1:1", "PRATIQUE_TOKEN": "t"}).invoke(
        main, ["controller", "--api-server", "http://127.0.0.1:1", *option]
    )

    assert done.exit_code == 2
    assert option[0] in done.stderr


def test_the_token_is_read_anew_at_each_request(api: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token, sent = tmp_path / "token", []  # type: ignore[var-annotated]
    server = ApiServer(api.url, token)
    original = requests.Session.send

    def keep(self: requests.Session, request: requests.PreparedRequest, **more: object) -> requests.Response:
        sent.append(request.headers["Authorization"])
        return original(self, request, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(requests.Session, "send", keep)
    for text in ("first\n", "second\n"):
        token.write_text(text)
        server.get("/api/v1/nodes")

    assert sent == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize(
    "content", ["first-word\nsecond-word\n", "first-word second-word", "", "first-word\x00", "wörd"]
)
def test_a_file_that_holds_no_token_is_named_and_what_stands_in_it_is_not(
    api: Emulator, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "token"
    file.write_text(content, encoding="utf-8")

    with pytest.raises(ApiError, match="must hold one token and nothing else") as caught:
        ApiServer(api.url, file).get("/api/v1/nodes/node-a")

    assert "word" not in str(caught.value)
    assert api.asked == []


@pytest.mark.parametrize("url", ["https://me:word@10.0.0.1", "https://", "https://10.0.0.1:99999", "ftp://me:word@x"])
def test_an_address_that_says_no_host_or_more_than_a_host_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(NoCluster) as caught:
        find_cluster(Given(api_server=url), {})

    assert "word" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_window_opens_on_both_kinds_of_addresses(host: str) -> None:
    port = Window(Meters(), lambda: True).open(host, 0)

    address = f"[{host}]" if ":" in host else host
    assert requests.get(f"http://{address}:{port}/health/live", timeout=5).text == "alive\n"


def test_a_bell_ends_a_wait_and_news_before_the_wait_is_not_lost() -> None:
    bell = Bell()
    began = time.monotonic()

    bell.ring()
    assert bell.wait(20) is False
    threading.Timer(0.05, bell.stop).start()
    assert bell.wait(20) is True
    assert bell.wait(20) is True
    assert time.monotonic() - began < 10


def test_a_bell_may_be_rung_for_ever() -> None:
    bell = Bell()

    for _ in range(70_000):
        bell.ring()

    assert bell.wait(0) is False


def test_meters_are_written_as_prometheus_reads_them() -> None:
    meters = Meters()
    meters.add("decisions_total", 'disposition="hold"')
    meters.add("decisions_total", 'disposition="hold"', 2)
    meters.set("leader", {"": 1.0})

    text = meters.text()

    assert f'{PREFIX}decisions_total{{disposition="hold"}} 3\n' in text
    assert f"{PREFIX}leader 1\n" in text
    for name, (kind, _) in METERS.items():
        assert f"# TYPE {PREFIX}{name} {kind}\n" in text
        assert (kind == "counter") == name.endswith("_total")


def test_the_window_shows_the_meters_and_whether_the_loop_turns() -> None:
    turns = [True]
    port = Window(Meters(), lambda: turns[0]).open("127.0.0.1", 0)
    url = f"http://127.0.0.1:{port}"

    assert f"{PREFIX}nodes" in requests.get(f"{url}/metrics", timeout=10).text
    assert requests.get(f"{url}/health/live", timeout=10).status_code == 200
    turns[0] = False
    assert requests.get(f"{url}/health/live", timeout=10).status_code == 503
    assert requests.get(f"{url}/secrets", timeout=10).status_code == 404


@pytest.mark.slow
def test_a_running_controller_shows_what_it_does_and_logs_lines_of_json(
    cluster: Cluster, server: LiveServer, start: Start
) -> None:
    node = Node(server)
    node.admit()
    cluster.register(node.name, BORN)
    running = start("--metrics-bind", "127.0.0.1:0")
    wait_for(lambda: cluster.condition(node.name).get("status") == "True", running.lines)

    url = f"http://127.0.0.1:{running.said('metrics are shown')[0]['port']}"
    wait_for(lambda: f'{PREFIX}nodes{{admitted="True"}} 1' in requests.get(f"{url}/metrics", timeout=10).text)
    text = requests.get(f"{url}/metrics", timeout=10).text

    assert f"{PREFIX}leader 1" in text
    assert re.search(rf'{PREFIX}changes_total{{what="taint_removed"}} 1\b', text)
    assert node.name not in text
    (changed,) = running.said("taints changed")
    assert (changed["node"], changed["before"], changed["after"]) == (node.name, ["NoSchedule"], [])
    assert {"at", "level", "logger", "process", "message"} <= changed.keys()
    assert os.environ.get("PRATIQUE_TOKEN", "prq_") not in running.log_file.read_text()
    assert TAINT_KEY not in {one["key"] for one in cluster.taints(node.name)}
