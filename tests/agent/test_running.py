# SPDX-License-Identifier: Apache-2.0
"""Does no tool hold the agent up, whatever it does, and is nothing left of it afterwards?"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from registry.agent import running
from registry.agent.running import ToolRunner, clean_environment, limit_in
from registry.collectors.running import ToolFailed, ToolMissing

LIMIT = 0.5


@pytest.fixture
def run() -> ToolRunner:
    return ToolRunner(os.environ, limit=LIMIT)


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


def gone(process: int) -> bool:
    """Wait a little for a killed process, which nobody here reaps, to be gone."""
    deadline = time.monotonic() + 5
    while is_alive(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_alive(process)


def test_it_gives_what_was_printed_whatever_the_exit_code(run: ToolRunner) -> None:
    assert run(shell("echo found; exit 9")) == b"found\n"


def test_it_gives_more_than_a_pipe_holds(run: ToolRunner) -> None:
    assert len(run(shell("head -c 1000000 /dev/zero"))) == 1_000_000


def test_a_program_that_is_not_here_is_missing(run: ToolRunner) -> None:
    with pytest.raises(ToolMissing, match="no-such-tool"):
        run(["no-such-tool"])


def test_an_exit_code_without_output_says_what_was_written_beside(run: ToolRunner) -> None:
    with pytest.raises(ToolFailed, match="sh ended with 3 and printed nothing: no driver"):
        run(shell("echo loading >&2; echo no driver >&2; exit 3"))


def test_what_a_signal_cut_short_is_no_answer(run: ToolRunner) -> None:
    with pytest.raises(ToolFailed, match="signal 9"):
        run(shell("echo half; kill -9 $$"))


def test_a_tool_that_hangs_is_killed_with_all_it_started(run: ToolRunner, tmp_path: Path) -> None:
    children = tmp_path / "children"
    began = time.monotonic()

    with pytest.raises(ToolFailed, match=r"within 0\.5 s"):
        run(shell(f"sleep 60 & echo $! > {children}; sh -c 'sleep 60 & echo $! >> {children}; wait' & wait"))

    assert time.monotonic() - began < LIMIT + 2
    started = [int(line) for line in children.read_text().split()]
    assert len(started) == 2
    assert all(gone(child) for child in started)


def test_a_tool_that_will_not_listen_to_signals_is_killed_all_the_same(run: ToolRunner) -> None:
    with pytest.raises(ToolFailed, match="was killed"):
        run(shell("trap '' TERM INT HUP; while :; do sleep 60; done"))


def test_what_a_tool_leaves_running_does_not_hold_its_answer_back(run: ToolRunner, tmp_path: Path) -> None:
    child = tmp_path / "child"

    assert run(shell(f"sleep 60 & echo $! > {child}; echo done")) == b"done\n"
    assert gone(int(child.read_text()))


def test_a_tool_that_prints_without_end_is_killed(run: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "OUTPUT_MAX", 100_000)

    with pytest.raises(ToolFailed, match="printed more than 100000 bytes"):
        run(["yes"])


def test_one_that_nothing_ends_is_abandoned_and_not_started_again(
    run: ToolRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process in a system call that never returns cannot be had in a test, so killing is taken away instead."""
    monkeypatch.setattr(running, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr("os.killpg", lambda *_: None)
    with pytest.raises(ToolFailed, match="was killed"):
        run(shell("exec sleep 60"))
    monkeypatch.undo()
    (stuck,) = run._abandoned.values()

    with pytest.raises(ToolFailed, match=f"process {stuck.pid} cannot be ended"):
        run(shell("echo again"))

    os.killpg(stuck.pid, signal.SIGKILL)
    stuck.wait(5)
    assert run(shell("echo again")) == b"again\n"


def test_a_stop_ends_the_waiting_at_once() -> None:
    began = time.monotonic()
    run = ToolRunner(os.environ, limit=60, is_stopping=lambda: time.monotonic() - began > 0.2)

    with pytest.raises(ToolFailed, match="the agent is stopping"):
        run(shell("sleep 60"))

    assert time.monotonic() - began < 5


def test_a_tool_sees_no_setting_of_ours_and_speaks_english() -> None:
    environment = clean_environment({"PRATIQUE_TOKEN": "prq_node_x", "HOME": "/home/x", "LC_ALL": "de_DE"})

    assert environment == {"HOME": "/home/x", "LC_ALL": "C"}


def test_what_is_given_is_its_standard_input(run: ToolRunner) -> None:
    output, remark, code = run.run(shell('cat; echo "$GIST" >&2; exit 4'), b"x" * 200_000, GIST="yes")

    assert (len(output), remark, code) == (200_000, "yes", 4)


def test_nothing_to_read_is_an_empty_standard_input(run: ToolRunner) -> None:
    assert run(["cat"]) == b""


@pytest.mark.parametrize(("period", "limit"), [(30.0, 20.0), (6.0, 4.0), (0.1, 2.0), (600.0, 20.0)])
def test_a_hang_leaves_room_in_a_period(period: float, limit: float) -> None:
    assert limit_in(period) == limit


def test_it_leaves_no_process_to_be_reaped(run: ToolRunner) -> None:
    run(shell("echo $$"))
    number = int(run(shell("echo $$")))

    with pytest.raises(ChildProcessError):
        os.waitpid(number, os.WNOHANG)


def test_a_file_that_cannot_be_run_says_so(run: ToolRunner, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/no/such/interpreter\n")
    tool.chmod(0o755)

    with pytest.raises(ToolFailed, match="cannot be started"):
        run([str(tool)])
