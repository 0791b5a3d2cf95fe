# SPDX-License-Identifier: Apache-2.0
"""Do two controllers never act at once, whatever their clocks show and whichever answers get lost?"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.controller.api_server import ApiError, ApiServer, Conflict, Missing
from registry.controller.lease import Lease
from tests.clock import NOON, Clock
from tests.kubernetes.emulator import Emulator
from tests.kubernetes.objects import Objects, Refused

SECONDS = 15.0


class DirectApi:
    """The objects without HTTP. `between` is called while a request is under way, `lose`: is the answer lost?"""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.between: Callable[[], None] = lambda: None
        self.lose: Callable[[], bool] = lambda: False

    def _ask(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        self.between()
        try:
            answer = work()
        except Refused as error:
            raise {404: Missing, 409: Conflict}[error.code](error.message, error.code) from error
        self.between()
        if self.lose():
            raise ApiError("timed out")
        return answer

    def get(self, path: str) -> dict[str, Any]:
        return self._ask(lambda: self.objects.get("leases", path.rpartition("/")[2], "here"))

    def create(self, _path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._ask(lambda: self.objects.create("leases", body, "here"))

    def replace(self, _path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._ask(lambda: self.objects.update("leases", "it", lambda _: body, "here"))


def make(api: Any, name: str, clock: Clock, ahead: float = 0.0, said: list[str] | None = None) -> Lease:
    """A claim of a controller whose clock of the day is ahead by so much."""

    def say(message: str, *, level: str = "info", **fields: Any) -> None:
        (said if said is not None else []).append(message)

    def seconds() -> float:
        return (clock.now - NOON).total_seconds()

    return Lease(api, "here", "it", name, say, seconds, lambda: clock.now + timedelta(seconds=ahead), SECONDS)


def held(objects: Objects) -> dict[str, Any]:
    """What the object says."""
    spec: dict[str, Any] = objects.get("leases", "it", "here")["spec"]
    return spec


def test_the_first_acts_and_the_second_waits_for_as_long_as_it_is_renewed(clock: Clock) -> None:
    objects = Objects()
    first, second = (make(DirectApi(objects), name, clock) for name in ("first", "second"))

    for _ in range(30):
        first.step()
        second.step()
        clock.advance(2)
        assert (first.is_held(), second.is_held()) == (True, False)
    assert (held(objects)["holderIdentity"], held(objects)["leaseTransitions"]) == ("first", 0)


def test_one_that_is_silent_stops_before_another_begins(clock: Clock) -> None:
    objects = Objects()
    first, second = (make(DirectApi(objects), name, clock) for name in ("first", "second"))
    first.step()
    second.step()

    clock.advance(10)
    second.step()
    assert (first.is_held(), second.is_held()) == (False, False)
    clock.advance(5)
    second.step()
    assert second.is_held()
    assert (held(objects)["holderIdentity"], held(objects)["leaseTransitions"]) == ("second", 1)
    first.step()
    assert not first.is_held()


@pytest.mark.parametrize("ahead", [-86_400.0, 86_400.0], ids=["a day behind", "a day ahead"])
def test_a_clock_that_is_wrong_takes_no_lease_from_anybody(clock: Clock, ahead: float) -> None:
    objects = Objects()
    first, second = make(DirectApi(objects), "first", clock), make(DirectApi(objects), "second", clock, ahead)

    for _ in range(10):
        first.step()
        second.step()
        clock.advance(2)

    assert (first.is_held(), second.is_held()) == (True, False)


def test_a_lease_that_is_given_back_is_taken_at_once(clock: Clock) -> None:
    objects = Objects()
    first, second = (make(DirectApi(objects), name, clock) for name in ("first", "second"))
    first.step()
    second.step()

    first.release()
    second.step()

    assert (first.is_held(), second.is_held()) == (False, True)


def test_one_that_does_not_act_gives_nothing_back(clock: Clock) -> None:
    objects = Objects()
    first, second = (make(DirectApi(objects), name, clock) for name in ("first", "second"))
    first.step()

    second.release()

    assert held(objects)["holderIdentity"] == "first"


def test_with_nobody_to_ask_it_acts_no_longer_than_its_share(clock: Clock) -> None:
    api, said = DirectApi(Objects()), []  # type: ignore[var-annotated]
    lease = make(api, "first", clock, said=said)
    lease.step()
    api.lose = lambda: True

    clock.advance(9)
    lease.step()
    assert lease.is_held()
    clock.advance(1)
    lease.step()
    assert not lease.is_held()
    assert said.count("the lease cannot be kept up") == 1

    api.lose = lambda: False
    lease.step()
    assert lease.is_held()


def test_an_answer_that_comes_late_lengthens_nothing(clock: Clock) -> None:
    """The renewal is done, another sees it at once, and its answer is twelve seconds on its way."""
    objects = Objects()
    api = DirectApi(objects)
    first, second = make(api, "first", clock), make(DirectApi(objects), "second", clock)
    first.step()
    second.step()
    clock.advance(2)
    moments: list[int] = []

    def under_way() -> None:
        moments.append(1)
        if len(moments) == 4:  # before and after the reading, before and after the writing
            second.step()
            clock.advance(12)

    api.between = under_way
    first.step()
    assert not first.is_held()
    clock.advance(3)
    second.step()
    assert second.is_held()


def test_a_lease_longer_than_ours_is_waited_for(clock: Clock) -> None:
    objects = Objects()
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 60, "renewTime": "2026-11-29T12:00:00.000000Z"}
    objects.create("leases", {"metadata": {"name": "it"}, "spec": spec}, "here")
    lease = make(DirectApi(objects), "first", clock)
    lease.step()

    clock.advance(59)
    lease.step()
    assert not lease.is_held()
    clock.advance(1)
    lease.step()
    assert lease.is_held()


def test_a_lease_that_is_deleted_under_its_holder_is_taken_by_nobody_before_its_time(clock: Clock) -> None:
    objects = Objects()
    first, second = (make(DirectApi(objects), name, clock) for name in ("first", "second"))
    first.step()
    second.step()
    objects.delete("leases", "it", "here")

    clock.advance(2)
    second.step()
    assert (first.is_held(), second.is_held()) == (True, False)
    clock.advance(14)
    second.step()
    assert (first.is_held(), second.is_held()) == (False, True)


def test_a_lease_that_somebody_made_by_hand_is_taken(clock: Clock) -> None:
    objects = Objects()
    objects.create("leases", {"metadata": {"name": "it", "labels": {"a": "b"}}}, "here")
    lease = make(DirectApi(objects), "first", clock)

    lease.step()

    assert lease.is_held()
    assert objects.get("leases", "it", "here")["metadata"]["labels"] == {"a": "b"}


def test_over_http_it_is_the_object_that_kubernetes_knows(api: Emulator, clock: Clock) -> None:
    lease = make(ApiServer(api.url), "first", clock)
    lease.step()
    clock.advance(2.5)
    lease.step()

    kept = api.objects.get("leases", "it", "here")
    assert (kept["kind"], kept["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")
    assert kept["spec"] == {
        "holderIdentity": "first",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-29T12:00:00.000000Z",
        "renewTime": "2026-11-29T12:00:02.500000Z",
        "leaseTransitions": 0,
    }


@given(st.data())
def test_never_do_two_act_at_once(data: st.DataObject) -> None:
    """Three of them look at any times, also while another's request is under way; answers to what was done get lost."""
    objects, clock = Objects(), Clock()
    pause = st.sampled_from([0.0, 0.1, 1.0, 4.0, 12.0])
    claims = [make(DirectApi(objects), name, clock, ahead) for name, ahead in (("a", 0.0), ("b", -500.0), ("c", 500.0))]
    busy: list[Lease] = []

    def let_time_go_by() -> None:
        clock.advance(data.draw(pause))
        assert sum(one.is_held() for one in claims) <= 1

    def act(who: Lease) -> None:
        busy.append(who)
        who.release() if data.draw(st.integers(0, 9)) == 0 else who.step()
        busy.remove(who)
        let_time_go_by()

    def under_way() -> None:
        let_time_go_by()
        if len(busy) < 2 and data.draw(st.booleans()):
            act(data.draw(st.sampled_from([one for one in claims if one not in busy])))

    for one in claims:
        api = cast("DirectApi", one.api)
        api.between, api.lose = under_way, lambda: data.draw(st.integers(0, 4)) == 0
    for _ in range(data.draw(st.integers(1, 12))):
        act(data.draw(st.sampled_from(claims)))
