# SPDX-License-Identifier: Apache-2.0
"""Does the controller know the nodes as they are, whatever happens to its watch?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from registry.controller import watching
from registry.controller.api_server import ApiError, ApiServer, Gone
from registry.controller.bell import Bell
from registry.controller.meters import Meters
from registry.controller.nodes import Nodes
from registry.controller.watching import Watcher
from registry.domain.node_naming import Naming
from registry.domain.taints import MANAGED_LABEL
from tests.kubernetes.emulator import Emulator
from tests.kubernetes.nodes import BORN, FOREIGN, Cluster, node_object
from tests.kubernetes.running import wait_for


@dataclass
class Following:
    """A watcher that runs beside the test."""

    watcher: Watcher
    said: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def names(self) -> list[str]:
        return sorted(self.watcher.nodes.all())

    def taints(self, name: str) -> list[dict[str, Any]]:
        seen = self.watcher.nodes.all().get(name)
        return [dict(one) for one in seen.taints] if seen else []

    def has(self, *names: str) -> None:
        wait_for(lambda: self.names() == sorted(names), lambda: (self.names(), self.said))


@pytest.fixture
def following(api: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Following]]:
    monkeypatch.setattr(watching, "pause_before", lambda attempt, _: 0.01 * (attempt + 1))
    bell = Bell()

    def begin() -> Following:
        said: list[tuple[str, dict[str, Any]]] = []

        def say(message: str, *, level: str = "info", **about: Any) -> None:
            said.append((message, about))

        server = ApiServer(api.url, watch_silence=2.0)
        made = Watcher(server, Nodes(), Naming(), say, Meters(), bell.is_stopping, time.sleep)
        threading.Thread(target=made.run, daemon=True).start()
        return Following(made, said)

    yield begin
    bell.stop()
    api.drop_watches()


def lists(api: Emulator) -> int:
    return sum((one.verb, one.resource) == ("list", "nodes") for one in api.asked)


def watches(api: Emulator) -> list[str]:
    return [one.query["resourceVersion"] for one in api.asked if one.verb == "watch"]


def test_it_sees_nodes_come_change_and_go(api: Emulator, cluster: Cluster, following: Callable[[], Following]) -> None:
    cluster.register("old", BORN)
    seen = following()
    seen.has("old")

    cluster.register("new", BORN)
    seen.has("new", "old")
    cluster.change_spec("new", taints=[FOREIGN])
    wait_for(lambda: seen.taints("new") == [FOREIGN])
    api.objects.delete("nodes", "old")
    seen.has("new")
    assert lists(api) == 1


def test_a_node_becomes_ours_and_stops_being_ours_with_its_label(
    api: Emulator, cluster: Cluster, following: Callable[[], Following]
) -> None:
    cluster.register("a", labels={})
    seen = following()
    cluster.register("b")
    seen.has("b")

    for value, names in (("true", ("a", "b")), ("false", ("b",))):
        api.objects.update(
            "nodes",
            "a",
            lambda old, value=value: {**old, "metadata": {**old["metadata"], "labels": {MANAGED_LABEL: value}}},  # type: ignore[misc]
        )
        seen.has(*names)


def test_a_watch_that_breaks_off_is_taken_up_again(
    api: Emulator, cluster: Cluster, following: Callable[[], Following]
) -> None:
    seen = following()
    cluster.register("a")
    seen.has("a")

    for name in ("b", "c"):
        api.is_away = True
        api.drop_watches()
        cluster.register(name)
        time.sleep(0.05)
        api.is_away = False
        wait_for(lambda name=name: name in seen.names())  # type: ignore[misc]


def test_a_watch_that_ends_by_itself_goes_on_from_where_it_was(
    api: Emulator, cluster: Cluster, following: Callable[[], Following]
) -> None:
    api.watch_seconds = 0.2
    seen = following()
    for number in range(5):
        cluster.register(f"node-{number}")
        time.sleep(0.1)

    seen.has(*(f"node-{number}" for number in range(5)))
    wait_for(lambda: len(watches(api)) > 2)
    assert lists(api) == 1


@pytest.mark.parametrize("at_once", [True, False], ids=["as the answer", "as an event"])
def test_410_is_met_with_a_new_list(
    api: Emulator, cluster: Cluster, following: Callable[[], Following], at_once: bool
) -> None:
    api.is_gone_at_once = at_once
    cluster.register("gone-meanwhile")
    seen = following()
    seen.has("gone-meanwhile")

    api.is_away = True
    api.drop_watches()
    api.objects.delete("nodes", "gone-meanwhile")
    cluster.register("born-meanwhile")
    api.objects.compact()
    api.is_away = False

    seen.has("born-meanwhile")


def test_bookmarks_save_a_quiet_watch_from_410(
    api: Emulator, cluster: Cluster, following: Callable[[], Following]
) -> None:
    """What changes besides our nodes moves the version on; the bookmark tells us."""
    api.watch_seconds = 1.2
    seen = following()
    seen.has()
    first = watches(api)
    for number in range(5):
        cluster.register(f"theirs-{number}", labels={})

    wait_for(lambda: len(watches(api)) > len(first) + 1)
    api.objects.oldest = int(watches(api)[-1])
    cluster.register("ours")

    seen.has("ours")
    assert lists(api) == 1


@pytest.mark.parametrize(
    "line",
    [b"{", b"null", b'{"type": "MODIFIED"}', b'{"type": "ERROR", "object": {"code": 500, "message": "no leader"}}'],
)
def test_a_line_that_is_no_event_starts_the_watch_anew(
    api: Emulator, cluster: Cluster, following: Callable[[], Following], line: bytes
) -> None:
    api.odd_lines.append(line)
    seen = following()
    cluster.register("a")

    seen.has("a")
    wait_for(lambda: lists(api) > 1)
    cluster.register("b")
    seen.has("a", "b")


def test_a_node_that_cannot_be_read_keeps_no_other_from_being_seen(
    api: Emulator, cluster: Cluster, following: Callable[[], Following]
) -> None:
    odd = node_object("odd")
    odd["spec"]["taints"] = "none"
    api.objects.create("nodes", odd)
    seen = following()
    cluster.register("a")
    api.objects.create("nodes", {**odd, "metadata": {**odd["metadata"], "name": "odder"}, "spec": []})
    cluster.register("b")

    seen.has("a", "b")
    assert {about["node"] for said, about in seen.said if "left alone" in said} == {"odd", "odder"}


def test_a_long_list_is_read_in_pages(api: Emulator, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "PAGE", "2")
    for number in range(5):
        cluster.register(f"node-{number}")
    nodes = Nodes()

    Watcher(ApiServer(api.url), nodes, Naming(), lambda *_, **__: None, Meters()).list()

    assert len(nodes.all()) == 5
    assert lists(api) == 3


def test_before_the_first_whole_list_nothing_is_known_of_any_node(cluster: Cluster, api: Emulator) -> None:
    """One node of which an event tells must not be taken for all that there are."""
    nodes = Nodes()
    watcher = Watcher(ApiServer(api.url), nodes, Naming(), lambda *_, **__: None, Meters())

    watcher._take("ADDED", cluster.register("a"))

    assert nodes.all() == {}


def test_what_is_no_list_is_an_error_and_takes_no_node_away(api: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    server = ApiServer(api.url)
    watcher = Watcher(server, Nodes(), Naming(), lambda *_, **__: None, Meters())

    for page in ({}, {"metadata": {}, "items": {}}):
        monkeypatch.setattr(ApiServer, "list", lambda *_, page=page: page)
        with pytest.raises(ApiError, match="no list"):
            watcher.list()


def test_errors_tell_what_to_do_next(api: Emulator) -> None:
    server = ApiServer(api.url)
    api.objects.compact()

    with pytest.raises(Gone):
        list(server.watch("/api/v1/nodes", {"resourceVersion": "1"}))
    api.is_away = True
    with pytest.raises(ApiError, match="no answer"):
        server.get("/api/v1/nodes")
