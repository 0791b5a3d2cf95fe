# SPDX-License-Identifier: Apache-2.0
"""Is nothing lost while the server is away, and does nothing old, large or wrong get in the way of what is so now?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from registry.agent import loop
from registry.agent.telling import CALM_MAX, DRAIN_MAX, DRAIN_SHARE, PAUSE_MAX, Superseded
from registry.client import NotAuthorised
from registry.domain.reports import CheckResult, CheckStatus
from tests.agent.scripted import GPU, Stage, fault, look, make_stage, problem

FAILING = CheckResult("gpu.ecc", CheckStatus.FAIL, GPU.slot, "gpu.ecc.dbe")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def away(stage: Stage, rounds: int) -> None:
    """Let the server be away for so many rounds, and be back when the agent may ask it again."""
    stage.client.is_away = True
    for _ in range(rounds):
        stage.round()
    stage.client.is_away = False
    stage.times.seconds += PAUSE_MAX * 30


def kinds(stage: Stage) -> list[str]:
    return sorted(entry.path.suffix for entry in stage.spool.waiting(1000) if entry.path)


def test_what_is_so_now_goes_first_then_faults_then_the_rest_in_order(stage: Stage) -> None:
    away(stage, 1)
    stage.look = look(failures=(fault(),))
    away(stage, 1)
    stage.look = look()
    away(stage, 1)

    stage.round()

    taken = stage.client.taken
    numbers = [message["seq"] for message in taken]
    assert len(taken) == 4
    assert numbers[0] == max(numbers)
    assert taken[1]["failures"][0]["code"] == "xid_79"
    assert numbers[2] < numbers[3]
    assert len(stage.spool) == 0


def test_a_message_goes_out_again_as_it_was(stage: Stage) -> None:
    """The server knows a repeat by its digest: not a byte may differ."""
    away(stage, 1)
    (entry,) = stage.spool.waiting(10)
    kept = json.loads(entry.body)

    stage.round()

    assert stage.last == kept
    assert list(stage.last) == list(kept)


def test_a_backlog_goes_out_in_bounded_parts(stage: Stage) -> None:
    for number in range(DRAIN_MAX * 2 + 5):
        body = {"report_id": f"r{number}", "boot_id": "boot-1", "provider_id": "i-1"}
        stage.spool.put(json.dumps(body).encode(), is_fault=True)

    left = []
    for _ in range(3):
        stage.round()
        left.append(len(stage.spool))

    assert left == [DRAIN_MAX + 5, 5, 0]


def test_what_has_no_news_comes_back_slowly(stage: Stage) -> None:
    """A fleet whose server was away for an hour would else send it a hundred times its usual load."""
    away(stage, 7)

    left = []
    for _ in range(4):
        stage.round()
        left.append(len(stage.spool))

    assert left == [7 - CALM_MAX, 7 - 2 * CALM_MAX, 7 - 3 * CALM_MAX, 0]


def test_a_slow_server_is_given_a_third_of_a_period_for_the_backlog(stage: Stage) -> None:
    for number in range(DRAIN_MAX):
        body = {"report_id": f"r{number}", "boot_id": "boot-1", "provider_id": "i-1"}
        stage.spool.put(json.dumps(body).encode(), is_fault=True)
    stage.client.takes = 3.0

    stage.round(0)

    assert stage.times.seconds - 1000 <= 3.0 + 30 * DRAIN_SHARE + 3.0
    assert 0 < len(stage.spool) < DRAIN_MAX


def test_pauses_grow_and_end_within_the_time_after_which_a_node_is_stale(stage: Stage) -> None:
    stage.client.is_away = True
    tries = []
    for _ in range(40):
        before = stage.client.tried
        stage.round(10)
        tries.append(stage.client.tried - before)

    gaps = [len(gap) * 10 + 10 for gap in "".join(map(str, tries)).strip("0").split("1")[1:-1]]
    assert gaps[0] < gaps[-1] <= PAUSE_MAX * 30
    assert len(stage.spool) == 40


def test_the_server_is_not_asked_before_the_time_it_names(stage: Stage) -> None:
    stage.client.refusals[""] = problem(503, "store_unavailable", retry_after=90)
    stage.round(30)
    stage.client.refusals.clear()
    stage.round(30)
    stage.round(31)
    assert stage.client.tried == 1

    stage.round()

    assert len(stage.client.taken) == 1 + CALM_MAX


def test_what_the_server_will_never_take_is_said_and_blocks_nothing(stage: Stage) -> None:
    stage.look = look(failures=(fault(31),))
    away(stage, 1)
    stage.look = look(failures=(fault(48),))
    away(stage, 1)
    stage.client.refusals["xid_31"] = problem(422, "invalid_field")
    stage.look = look()

    stage.round()

    assert len(stage.spool) == 0
    assert [one["code"] for message in stage.client.taken for one in message.get("failures", ())] == ["xid_48"]
    assert any("xid_31 kernel-31" in sentence and "invalid_field" in sentence for sentence in stage.said)


@pytest.mark.parametrize("status", [403, 404, 409])
def test_a_refusal_that_is_about_a_message_that_waited_is_for_ever(stage: Stage, status: int) -> None:
    stage.look = look(failures=(fault(31),))
    away(stage, 1)
    stage.look = look()
    stage.client.refusals["xid_31"] = problem(status, "not_found")

    stage.round()

    assert len(stage.spool) == 0


def test_a_message_that_the_server_fails_over_stays_and_blocks_nothing(stage: Stage) -> None:
    stage.look = look(failures=(fault(31),))
    away(stage, 1)
    stage.look = look(failures=(fault(48),))
    away(stage, 1)
    stage.client.refusals["xid_31"] = problem(500, "internal")
    stage.look = look()

    stage.round()
    stage.round()

    assert [entry.is_fault for entry in stage.spool.waiting(10)] == [True]
    assert [one["code"] for message in stage.client.taken for one in message.get("failures", ())] == ["xid_48"]
    assert stage.last["seq"] == max(message["seq"] for message in stage.client.taken)


def test_a_list_that_the_server_refuses_does_not_take_its_faults_down(stage: Stage) -> None:
    stage.look = look(failures=(fault(),))
    refused = problem(422, "slot_repeated")
    stage.client.refusals[""] = refused
    plain = stage.client.report

    def report(node: str, message: dict[str, object], *rest: object, **more: object) -> dict[str, object]:
        stage.client.refusals = {"": refused} if "devices" in message else {}
        return plain(node, message)

    stage.client.report = report  # type: ignore[method-assign,assignment]
    stage.round()

    (bare,) = stage.client.taken
    assert bare["failures"][0]["code"] == "xid_79"
    assert not {"devices", "covers"} & bare.keys()
    assert len(stage.spool) == 0


def test_what_goes_on_failing_is_no_news_each_time(stage: Stage) -> None:
    stage.look = look(checks=(FAILING,))

    away(stage, 3)

    assert kinds(stage) == [".calm", ".calm", ".fault"]


def test_a_newer_instance_ends_the_agent(stage: Stage) -> None:
    stage.client.refusals[""] = problem(409, "instance_superseded")

    with pytest.raises(Superseded, match="instance_superseded"):
        stage.round()


def test_messages_of_another_instance_on_a_disk_or_image_are_sent_to_nobody(stage: Stage, tmp_path: Path) -> None:
    """A server that never heard of that instance would take them for a new life of this node, and replace it."""
    body = {"report_id": "r", "boot_id": "boot-0", "provider_id": "i-0", "failures": [{"code": "xid_48"}]}
    stage.spool.put(json.dumps(body).encode(), is_fault=True)
    stage.spool.put(json.dumps({**body, "report_id": "calm", "failures": []}).encode(), is_fault=False)

    again = make_stage(tmp_path)
    again.round()

    assert [message["provider_id"] for message in again.client.taken] == ["i-1"]
    assert "earlier_boots" not in again.last
    assert len(again.spool) == 0
    assert len(list((again.spool.folder / "set-aside").iterdir())) == 2
    assert any("of another instance, i-0; faults in it: xid_48" in sentence for sentence in again.said)


def test_the_server_hears_of_earlier_boots_before_their_messages(stage: Stage, tmp_path: Path) -> None:
    """Two boots while it was away: of the first of them it would hear from a message that waited."""
    stage.look = look(failures=(fault(),))
    away(stage, 2)
    again = make_stage(tmp_path, boot="boot-2")
    again.client.refusals[""] = problem(422, "invalid_field")
    again.round()
    assert (again.client.taken, len(again.spool)) == ([], 2)
    again.client.refusals.clear()

    again.round()
    again.round()

    first, *late, last = again.client.taken
    assert (first["boot_id"], first["earlier_boots"]) == ("boot-2", ["boot-1"])
    assert [message["boot_id"] for message in late] == ["boot-1", "boot-1"]
    assert not any("earlier_boots" in message for message in (*late, last))


def test_boots_that_one_report_cannot_name_are_told_by_the_next(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "EARLIER_MAX", 2)
    stage.agent.earlier_boots = ("b1", "b2", "b3")

    for _ in range(3):
        stage.round()

    told = [message.get("earlier_boots") for message in stage.client.taken]
    assert told == [["b1", "b2"], ["b3"], None]


def test_a_token_that_was_replaced_is_taken_up(stage: Stage) -> None:
    stage.agent.teller.fresh_token = lambda: "the new one"
    stage.client.refusals[""] = NotAuthorised(401, {"code": "unauthenticated", "detail": "unknown token"})
    stage.round()
    stage.client.refusals.clear()
    stage.times.seconds += PAUSE_MAX * 30

    stage.round()

    assert stage.client.token == "the new one"
    assert len(stage.client.taken) == 2


def test_it_says_once_that_the_server_is_away_and_once_that_it_is_back(stage: Stage) -> None:
    stage.round()
    away(stage, 5)
    stage.round()

    about = [sentence for sentence in stage.said if "server" in sentence]
    assert len(about) == 2
    assert about[1] == "http://server answers again; 5 messages wait"


@pytest.mark.parametrize("answer", [{"status": "ok"}, {"report_id": "another", "admission": {}}, {"report_id": True}])
def test_an_answer_that_is_not_to_the_report_has_not_taken_it(stage: Stage, answer: dict[str, object]) -> None:
    stage.look = look(failures=(fault(),))
    stage.client.report = lambda *_, **__: answer  # type: ignore[method-assign]

    stage.round()

    assert kinds(stage) == [".fault"]
    assert stage.agent.standing is None or stage.agent.standing.decision is None


def test_what_is_given_up_is_kept_aside_whole(stage: Stage) -> None:
    stage.look = look(failures=(fault(31),))
    stage.client.refusals["xid_31"] = problem(422, "invalid_field")

    stage.round()

    kept = [json.loads(path.read_bytes()) for path in sorted((stage.spool.folder / "set-aside").iterdir())]
    assert ["devices" in one for one in kept] == [False, True]
    assert {one["failures"][0]["code"] for one in kept} == {"xid_31"}


@pytest.mark.parametrize("body", [b"[1]", b"no json", b"[" * 100_000, b'{"report_id": "r", "failures": ["x"]}', b"{}"])
def test_a_kept_file_that_holds_no_report_is_set_aside_and_the_rest_goes_on(stage: Stage, body: bytes) -> None:
    stage.spool.put(body, is_fault=True)
    waited = {"report_id": "r2", "boot_id": "boot-1", "provider_id": "i-1"}
    stage.spool.put(json.dumps(waited).encode(), is_fault=True)

    stage.round()

    assert stage.last["report_id"] == "r2"
    assert len(stage.spool) == 0
    assert any("it holds no report" in sentence for sentence in stage.said)


def test_no_server_makes_an_agent_wait_until_its_node_is_stale(stage: Stage) -> None:
    stage.client.refusals[""] = problem(503, "store_unavailable", retry_after=3600)
    stage.round(0)
    stage.client.refusals.clear()
    begun = stage.times.seconds
    while not stage.client.taken:
        stage.round(33)

    assert stage.times.seconds - 33 - begun < 120
