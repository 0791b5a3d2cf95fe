# SPDX-License-Identifier: Apache-2.0
"""Can repairs be carried out from the command line?"""

from __future__ import annotations

import pytest

from tests.cli.conftest import Pratique
from tests.fleet import Fleet, serial, uuid
from tests.services.test_repairs import EAGER, failing, work


@pytest.fixture
def order(fleet: Fleet, pratique: Pratique) -> str:
    """The id of a repair that may begin."""
    fleet.policy = EAGER
    fleet.report(checks=failing(uuid(0)))
    fleet.clock.advance(601)  # the server has the patience of the policy that is built in
    fleet.report(checks=failing(uuid(0)))
    work(fleet)
    return str(pratique.json("repair", "list", "--state", "ready")["items"][0]["id"])


def test_a_repair_is_listed_claimed_and_completed(pratique: Pratique, order: str) -> None:
    line = pratique("repair", "list").stdout.splitlines()[1]
    assert [word in line for word in (order, "reset_gpu", "ready", serial(0))] == [True] * 4

    token = pratique.json("repair", "claim", order, "--holder", "robot-1")["token"]
    second = pratique("repair", "claim", order, "--holder", "robot-2")
    assert (second.exit_code, "robot-1" in second.output) == (1, True)
    held = ("--holder", "robot-1", "--token", str(token))
    shown = pratique("repair", "claim", order, *held)
    assert shown.exit_code == 0
    assert "0000:10:00.0" in shown.stdout

    done = pratique.json("repair", "complete", order, "--outcome", "done", *held)
    assert (done["state"], done["outcome"]) == ("done", "carried_out")
    assert "carried_out" in pratique("repair", "show", order).stdout


def test_a_repair_is_cancelled(pratique: Pratique, order: str) -> None:
    found = pratique.json("repair", "cancel", order, "--reason", "pulled", "--outcome", "gone")

    assert (found["state"], found["outcome"], found["detail"]) == ("cancelled", "gone", "pulled")


def test_all_are_stopped_and_go_on(pratique: Pratique, order: str) -> None:
    stopped = pratique("repair", "stop", "--reason", "storm")
    assert "operator:operator: storm" in stopped.stdout
    assert pratique("repair", "claim", order).exit_code != 0
    assert "storm" in pratique("repair", "budget").stdout
    assert pratique.json("repair", "resume", "--reason", "over")["stopped"] is None
    assert pratique("repair", "claim", order).exit_code == 0
