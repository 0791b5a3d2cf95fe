# SPDX-License-Identifier: Apache-2.0
"""Does the boot script stand proxies, clocks, locales, full disks, long logs, and tools that run wild?"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from registry.services import nodes
from tests.cli.scripted import Answer, scripted
from tests.deploy.conftest import SCRIPT, SHELLS, TAKEN, Host, LiveService, is_gone

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("curl") is None, reason="the script needs curl")]

NO_PROBLEM = b"<html>who are you?</html>"


@pytest.mark.parametrize("status", [400, 401, 403, 409, 422])
@pytest.mark.parametrize("before", [(), (TAKEN,)], ids=["report", "admission"])
def test_what_a_proxy_refuses_is_20(host: Host, before: tuple[Answer, ...], status: int) -> None:
    with scripted(*before, Answer(status, NO_PROBLEM), Answer(status, NO_PROBLEM)) as server:
        host.url = server.url
        ran = host.boot()

    assert ran.code == 20


@pytest.mark.parametrize("shell", SHELLS)
def test_no_locale_changes_what_a_name_or_an_id_is(host: Host, shell: str) -> None:
    """Before bash 5.0 `[a-z]` was what the locale sorts so, as `globasciiranges` still lets it be."""
    host.write("sys/devices/virtual/dmi/id/sys_vendor", "Amazon EC2\n")
    host.write("sys/devices/virtual/dmi/id/board_asset_tag", "i-0123456789abcdef0\n")
    host.environment |= {"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}
    host.tool("dmesg", 'echo "$LC_ALL" >"$0.locale"\necho "[ 0.0] Linux version 6"')

    ran = host.boot(shell=shell)

    assert ran.code == 11, ran
    assert (host.folder / "bin" / "dmesg.locale").read_text() == "C\n"
    assert SCRIPT.read_text().index("export LC_ALL") < SCRIPT.read_text().index("[A-Za-z")


def test_it_says_why_a_run_did_not_count(host: Host) -> None:
    host.tool("dmesg", "exit 1")

    ran = host.boot()

    assert ran.code == 13
    assert "this run did not count: check_not_clean (gpu.xid)" in ran.err


@pytest.mark.skipif(not Path("/proc/uptime").exists(), reason="the kernel tells no uptime")
def test_a_wall_clock_that_stands_still_lets_it_end(host: Host) -> None:
    host.tool("date", f'case $1 in +%s) echo 1000000000 ;; *) exec {shutil.which("date")} "$@" ;; esac')
    host.url = "http://127.0.0.1:9"

    assert host.boot("--wait", "2s").code == 20


def test_a_full_disk_is_4_and_named(host: Host) -> None:
    done = subprocess.run(
        ["sh", "-c", 'trap "" XFSZ; ulimit -f 0; exec "$@"', "sh", *host.command(*host.options(), host.node)],
        cwd=host.folder,
        env=host.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 4
    assert str(host.folder / "t m p") in done.stderr
    assert "full" in done.stderr


def test_of_a_long_log_the_newest_whole_lines_are_sent(host: Host) -> None:
    host.tool("dmesg", 'i=0; while [ $i -lt 1000 ]; do i=$((i + 1)); echo "[    $i.000000] line $i"; done')
    short = host.folder / "short.sh"
    short.write_text(SCRIPT.read_text().replace("LOG_MOST=4194304", "LOG_MOST=1000"))
    with scripted(TAKEN, Answer(200, b"admit 0 - -\n")) as server:
        host.url = server.url
        host.run(*host.options(), host.node, script=short)

    sent = server.asked[0].body.decode()
    assert "line 1000\n" in sent
    assert "line 1\n" not in sent
    log = sent.partition('name="kernel_log"')[2].partition("\r\n\r\n")[2]
    assert log.startswith("[    9")
    assert log.index("\r\n--") < 1000


@pytest.mark.skipif(shutil.which("setsid") is None, reason="a group of its own needs setsid")
@pytest.mark.parametrize("end", ["sleep 50", "exit 0"], ids=["that hangs", "that ends"])
def test_what_a_tool_started_ends_with_it(host: Host, end: str) -> None:
    host.tool("dmesg", f'echo "[ 0.0] Linux"\nsleep 50 &\necho $! >"$0.child"\n{end}')
    short = host.folder / "short.sh"
    short.write_text(SCRIPT.read_text().replace("LIMIT=20 ", "LIMIT=2 "))

    host.run(*host.options(), host.node, script=short)

    child = int((host.folder / "bin" / "dmesg.child").read_text())
    assert is_gone(child)


def test_an_adapter_that_gives_no_answer_holds_nobody_up(host: Host, service: LiveService) -> None:
    host.write("sys/class/infiniband/rdmap79s0/node_guid", "0000:0000:0000:0000\n")
    (host.root / "sys/class/infiniband/rdmap79s0/hw_counters").mkdir()
    os.mkfifo(host.root / "sys/class/infiniband/rdmap79s0/hw_counters/lifespan")
    short = host.folder / "short.sh"
    short.write_text(SCRIPT.read_text().replace("LIMIT=20 ", "LIMIT=2 "))

    ran = host.run(*host.options(), host.node, script=short)

    assert ran.code == 4, ran
    assert "was not done within 2 s" in ran.out
    now, standing = datetime.now(UTC), service.standing
    shown = nodes.show_node(standing.database, host.node, policy=standing.policy, now=now)
    assert {one["status"] for one in shown["checks"] if one["name"] == "efa.link"} == {"unknown"}


def test_without_tar_the_adapters_are_unknown_and_it_is_4(host: Host) -> None:
    host.tool("tar", "echo 'tar: no such thing' >&2; exit 1")

    ran = host.boot()

    assert ran.code == 4, ran
    assert "tar: no such thing" in ran.out


@pytest.mark.parametrize("shell", SHELLS)
def test_a_token_may_end_in_what_editors_leave_behind_it(host: Host, shell: str) -> None:
    token = host.token_file.read_text().strip()
    host.token_file.write_text(f"{token} \r\n")
    of_file = host.boot(shell=shell)
    host.environment["PRATIQUE_TOKEN"] = f"{token}\r\n"
    url, place, *others = zip(*[iter(host.options("--wait", "20s"))] * 2, strict=True)
    of_variable = host.run(*url, *(text for pair in others for text in pair), host.node, shell=shell)

    assert place[0] == "--token-file"
    assert (of_file.code, of_variable.code) == (11, 0)


def test_certificates_may_be_a_folder(host: Host) -> None:
    (host.folder / "certificates").mkdir()

    assert host.boot("--ca-file", "certificates").code == 11


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device is full")
@pytest.mark.parametrize("shell", SHELLS)
def test_the_code_is_that_of_the_decision_also_where_nobody_can_read_it(host: Host, shell: str) -> None:
    codes = []
    for wait in ("0s", "20s"):
        with Path("/dev/full").open("w") as full:
            command = host.command(*host.options("--wait", wait), host.node, shell=shell)
            ran = subprocess.run(command, cwd=host.folder, env=host.environment, stdout=full, stderr=full, check=False)
            codes.append(ran.returncode)

    assert codes == [11, 0]


def test_a_silent_server_does_not_stretch_the_time_that_was_given(host: Host) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host.url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        short = host.folder / "short.sh"
        short.write_text(SCRIPT.read_text().replace("ANSWER_LEAST=10 ", "ANSWER_LEAST=1 "))
        begun = time.monotonic()
        ran = host.run(*host.options("--wait", "2s"), host.node, script=short)

    assert (ran.code, time.monotonic() - begun < 12) == (20, True)


def test_a_tool_that_writes_for_ever_is_stopped(host: Host) -> None:
    host.tool("ibv_devinfo", "exec yes")
    short = host.folder / "short.sh"
    short.write_text(SCRIPT.read_text().replace("TOOL_MOST=65536", "TOOL_MOST=64"))
    begun = time.monotonic()
    with scripted(TAKEN, Answer(200, b"admit 0 - -\n")) as server:
        host.url = server.url
        host.run(*host.options(), host.node, script=short)

    assert len(server.asked[0].body) < 1_000_000
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize(
    "lines",
    [
        "echo 'No devices were found'; exit 6",
        "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18",
        'echo "NVIDIA-SMI has \\"failed\\"" >&2; exit 9',
    ],
)
def test_what_the_gpu_tool_complains_of_is_quoted_and_reported(host: Host, lines: str, service: LiveService) -> None:
    host.tool("nvidia-smi", lines)

    ran = host.boot()

    assert ran.code == 4
    told = lines.partition("; ")[0].translate(str.maketrans("", "", "\"'\\")).removeprefix("echo ").removesuffix(" >&2")
    assert told in ran.out
    now, standing = datetime.now(UTC), service.standing
    shown = nodes.show_node(standing.database, host.node, policy=standing.policy, now=now)
    assert {one["status"] for one in shown["checks"] if one["name"] in {"gpu.ecc", "gpu.row_remap"}} == {"unknown"}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_trace_and_a_killed_run_show_no_token(host: Host, shell: str) -> None:
    token = host.token_file.read_text().strip()
    *interpreter, script = host.command(shell=shell)
    host.tool("dmesg", 'grep -rl prq_ "$TMPDIR" >"$0.found"; echo "[ 0.0] Linux"')

    traced = subprocess.run(
        [*interpreter, "-x", script, *host.options(), host.node],
        cwd=host.folder,
        env={**host.environment, "token": "x"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert traced.returncode == 11, traced
    assert token not in traced.stderr + traced.stdout
    assert (host.folder / "bin" / "dmesg.found").read_text() == ""
