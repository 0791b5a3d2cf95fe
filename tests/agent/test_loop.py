# SPDX-License-Identifier: Apache-2.0
"""Does a round tell what is so now, first, at the right pace, and whatever happened before?"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from registry.agent import spool as spools
from registry.agent.looking import Look
from registry.agent.loop import DECISION_MAX_AGE, JITTER, PERIOD_SECONDS
from registry.agent.messages import FAULTS_MAX, Span
from registry.agent.notify import ALIVE, READY, STOPPING
from registry.agent.telling import Superseded
from registry.domain.reports import CheckResult, CheckStatus
from registry.domain.times import parse_rfc3339
from tests.agent.scripted import Stage, decision, fault, look, make_stage, problem
from tests.clock import NOON


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def test_rounds_begin_a_period_and_a_little_apart_however_long_they_take(stage: Stage) -> None:
    stage.times.rounds, stage.look_seconds = 3, 4.0

    stage.agent.run()

    least, most = (PERIOD_SECONDS * (1 + share) for share in JITTER)
    assert 0 < JITTER[0] < JITTER[1]
    assert all(least <= wait + 4.0 <= most for wait in stage.times.waits)
    assert len(stage.client.taken) == 3


def test_a_round_that_took_longer_than_a_period_is_followed_at_once(stage: Stage) -> None:
    stage.times.rounds, stage.look_seconds = 1, 50.0
    waited: list[float] = []
    stage.agent.times.wait = lambda seconds: waited.append(seconds) or len(waited) > 2  # type: ignore[method-assign]

    stage.agent.run()

    assert waited[1] == 0.0


def test_a_report_says_when_the_round_was_on_one_clock(stage: Stage) -> None:
    stage.look_seconds = 4.0

    stage.round()

    times = [parse_rfc3339(stage.last[name]) for name in ("started_at", "finished_at", "sent_at")]
    assert (times[1] - times[0]).total_seconds() == 4.0
    assert times[2] == times[1]


def test_each_report_has_ids_of_its_own_and_a_higher_number(stage: Stage) -> None:
    for _ in range(3):
        stage.round()

    taken = stage.client.taken
    assert len({message["report_id"] for message in taken} | {message["run_id"] for message in taken}) == 6
    assert [message["seq"] for message in taken] == [1_000_000, 1_031_000, 1_062_000]


def test_numbers_go_up_also_when_two_reports_are_made_in_the_same_instant(stage: Stage) -> None:
    stage.round(0)
    stage.round(0)

    assert [message["seq"] for message in stage.client.taken] == [1_000_000, 1_000_001]


def test_an_agent_that_lost_its_folder_goes_on_with_higher_numbers(stage: Stage, tmp_path: Path) -> None:
    stage.round()
    again = make_stage(tmp_path / "elsewhere")
    again.times.seconds = stage.times.seconds

    again.round()

    assert again.last["seq"] > stage.last["seq"]


def test_a_fault_is_told_once(stage: Stage) -> None:
    stage.look = look(failures=(fault(),))

    stage.round()
    stage.round()

    assert [one["failure_id"] for one in stage.client.taken[0]["failures"]] == ["kernel-79"]
    assert "failures" not in stage.client.taken[1]


def test_an_agent_that_was_killed_remembers_what_it_told(stage: Stage, tmp_path: Path) -> None:
    stage.look = look(failures=(fault(),))
    stage.round()
    again = make_stage(tmp_path)
    again.look = look(failures=(fault(), fault(48)))

    again.round()

    assert [one["code"] for one in again.last["failures"]] == ["xid_48"]


def test_in_a_new_boot_everything_is_told_anew(stage: Stage, tmp_path: Path) -> None:
    stage.look = look(failures=(fault(),))
    stage.round()
    again = make_stage(tmp_path, boot="boot-2")
    again.look = stage.look

    again.round()

    assert [one["code"] for one in again.last["failures"]] == ["xid_79"]


def test_a_fault_without_a_time_that_comes_back_is_another(stage: Stage) -> None:
    health = fault(failure_id="dcgm-1", code="dcgm_fr_x", occurred_at=None)
    seen = []

    for failures in ((health,), (health,), (), (health,)):
        stage.look = look(failures=failures)
        stage.round()
        seen += [one["failure_id"] for one in stage.last.get("failures", ())]

    assert len(seen) == len(set(seen)) == 2


def test_a_source_that_could_not_be_read_ends_no_fault(stage: Stage) -> None:
    health = fault(failure_id="dcgm-1", code="dcgm_fr_x", occurred_at=None)

    for one in (look(failures=(health,)), look(troubles={"DCGM": "DCGM: hung"}), look(failures=(health,))):
        stage.look = one
        stage.round()

    assert sum("failures" in message for message in stage.client.taken) == 1


def test_the_host_is_told_until_it_was_heard(stage: Stage) -> None:
    stage.look = look(host={"dmi": {"serial": "C1"}})
    stage.client.is_away = True
    stage.round()
    stage.client.is_away = False
    stage.times.seconds += 100

    stage.round()
    stage.round()

    told = [message for message in stage.client.taken if message["sent_at"] > "2026-11-29T12:01"]
    assert told[0]["host"] == {"dmi": {"serial": "C1"}}
    assert "host" not in stage.last


def test_slow_checks_are_told_as_a_part_of_their_round(stage: Stage) -> None:
    stage.round()
    stage.idle.found = stage.idle.begun[0], Look(checks=(CheckResult("dcgm.diag", CheckStatus.PASS),)), Span(990, 1020)

    stage.round()

    first, second, slow = stage.client.taken
    assert slow["run_id"] == first["run_id"] != second["run_id"]
    assert slow["checks"] == [{"name": "dcgm.diag", "status": "pass"}]
    assert "devices" not in slow
    assert slow["seq"] > second["seq"]
    finished, sent = (parse_rfc3339(slow[name]) for name in ("finished_at", "sent_at"))
    assert (sent - finished).total_seconds() == 11


def test_a_look_that_was_cut_short_by_a_stop_is_told_to_nobody(stage: Stage) -> None:
    stage.agent.times.wait = lambda _: True  # type: ignore[method-assign]

    stage.agent.run()

    assert stage.client.taken == []
    assert len(stage.spool) == 0
    assert stage.notified == [STOPPING]


def test_the_manager_hears_that_it_is_up_and_alive_after_each_round(stage: Stage) -> None:
    stage.times.rounds = 2

    stage.agent.run()

    assert stage.notified == [READY, ALIVE, "STATUS=admitted; 0 messages wait"] * 2 + [STOPPING]


def test_it_says_what_changes_and_not_what_stays(stage: Stage) -> None:
    for troubles in ({}, {"GPUs": "GPUs: it hung"}, {"GPUs": "GPUs: it hung"}, {}):
        stage.look = look(troubles=troubles)
        stage.round()

    assert stage.said == ["node-a: admitted", "GPUs: it hung", "GPUs: can be read again"]


def test_a_decision_that_is_too_old_is_none(stage: Stage) -> None:
    stage.round()
    stage.client.is_away = True
    while stage.times.seconds < 1000 + DECISION_MAX_AGE:
        stage.round(30)
        assert stage.agent.standing is not None
        assert stage.agent.standing.admitted

    stage.round()

    assert stage.agent.standing is not None
    assert (stage.agent.standing.admitted, stage.agent.standing.exit_code) == (False, 20)
    assert "Connection refused" in stage.agent.standing.detail


def test_an_answer_without_a_decision_is_no_yes(stage: Stage) -> None:
    stage.client.decision = {"admitted": True}

    stage.round()

    assert stage.agent.standing is not None
    assert stage.agent.standing.exit_code == 20
    assert "the server's answer holds no decision" in stage.said


def test_a_fault_that_has_gone_on_is_told_again_under_its_id(stage: Stage) -> None:
    stage.look = look(failures=(fault(13),))
    stage.round()
    later = fault(13, count=2, last_at=NOON + timedelta(minutes=8))
    stage.look = look(failures=(later,))

    stage.round()
    stage.round()

    told = [one for message in stage.client.taken for one in message.get("failures", ())]
    assert [(one["failure_id"], one.get("count", 1)) for one in told] == [("kernel-13", 1), ("kernel-13", 2)]


def test_more_faults_than_a_report_holds_go_in_several(stage: Stage) -> None:
    stage.look = look(failures=tuple(fault(13, failure_id=f"k-{at}") for at in range(FAULTS_MAX + 5)))

    stage.round()

    first, second = stage.client.taken
    assert [len(one["failures"]) for one in (first, second)] == [FAULTS_MAX, 5]
    assert ("devices" in first, "devices" in second) == (True, False)
    assert first["report_id"] != second["report_id"]
    assert first["seq"] < second["seq"]


def test_why_a_look_does_not_count_is_said_once_and_stands_in_the_file(tmp_path: Path) -> None:
    stage = make_stage(tmp_path, file=tmp_path / "decision.json")
    stage.client.more = {"pass": {"counted": False, "because": "check_not_clean", "detail": "gpu.ecc"}}

    stage.round()
    stage.round()

    assert [one for one in stage.said if "does not count" in one] == [
        "this look does not count as a pass: check_not_clean: gpu.ecc"
    ]
    assert json.loads((tmp_path / "decision.json").read_text())["pass"]["because"] == "check_not_clean"


def test_an_agent_that_yields_to_a_newer_one_leaves_no_admission_behind(tmp_path: Path) -> None:
    command = ("sh", "-c", f'echo "$DECISION_EXIT_CODE $DECISION_CODES" > {tmp_path}/hook')
    stage = make_stage(tmp_path, file=tmp_path / "decision.json", command=command)
    stage.round()
    stage.client.refusals[""] = problem(409, "instance_superseded")

    with pytest.raises(Superseded) as ended:
        stage.round()
    stage.agent.yield_to_newer(ended.value.detail)

    left = json.loads((tmp_path / "decision.json").read_text())
    assert (left["admitted"], left["exit_code"], left["decision"]) == (False, 14, None)
    assert (tmp_path / "hook").read_text() == "14 instance_superseded\n"


def test_a_node_is_free_until_it_was_admitted_in_this_boot(stage: Stage, tmp_path: Path) -> None:
    stage.client.is_away = True
    stage.round()
    stage.client.is_away, stage.times.seconds = False, stage.times.seconds + 100
    for codes in (("passes_insufficient",), (), ("device_quarantined",)):
        stage.client.decision = decision(*codes)
        stage.round()
    again = make_stage(tmp_path)
    again.client.decision = decision("device_quarantined")
    again.round()

    assert stage.idle.free == [False, True, False, False]
    assert again.idle.free == [False]


def test_faults_that_hurry_are_told_as_a_part_of_the_round_and_not_twice(stage: Stage) -> None:
    plain = stage.agent.look

    def slow() -> Look:
        stage.agent.hurry(look(lists={}, failures=(fault(),)))
        return plain()

    stage.agent.look = slow
    stage.look = look(failures=(fault(),))
    stage.round()

    early, whole = stage.client.taken
    assert [one["code"] for one in early["failures"]] == ["xid_79"]
    assert "devices" not in early
    assert "failures" not in whole
    assert early["run_id"] == whole["run_id"]


def test_a_fault_that_no_disk_took_is_told_again_by_the_next_agent(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    stage.client.is_away = True
    stage.look = look(failures=(fault(),))
    with monkeypatch.context() as full:
        full.setattr(spools, "write_whole", refuse)
        stage.round()
        stage.round()
    assert [entry.is_fault for entry in stage.spool.waiting(9)] == [True]

    again = make_stage(tmp_path)
    again.look = stage.look
    again.round()

    assert [one["code"] for one in again.last["failures"]] == ["xid_79"]
