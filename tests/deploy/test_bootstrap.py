# SPDX-License-Identifier: Apache-2.0
"""Does the boot script end with the code of the decision, under every shell, and never with 0 for anything else?"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from registry.admin.demo_hardware import print_gpus
from registry.domain.events import Actor, ActorKind
from registry.domain.roles import Role
from registry.services import failure_pages, nodes
from registry.services.quarantine import OpenQuarantines, open_quarantines
from tests.cli.scripted import Answer, scripted
from tests.deploy.conftest import PROFILE, SCRIPT, SHELLS, TAKEN, Host, LiveService, is_gone
from tests.fleet import EVERYTHING

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("curl") is None, reason="the script needs curl")]

ALICE = Actor(ActorKind.OPERATOR, "alice")
LONG = ("--wait", "30s")


def hold(service: LiveService, serial: str) -> None:
    command = OpenQuarantines(
        targets=({"identifier": {"kind": "gpu", "type": "serial", "value": serial}},), reason="it smells"
    )
    open_quarantines(service.standing.database, command, actor=ALICE, now=datetime.now(UTC))


@pytest.mark.parametrize("shell", SHELLS)
def test_a_sound_node_is_admitted_after_its_passes(host: Host, shell: str) -> None:
    ran = host.boot(*LONG, shell=shell)

    assert ran.code == 0, ran.err
    assert ran.out == f"{host.node}: admit 0 - -\n"
    assert f"{host.node}: waiting: hold 11 passes_insufficient" in ran.err


def test_asked_once_it_says_what_is_so_now(host: Host) -> None:
    first, second = host.boot(), host.boot(*LONG)

    assert (first.code, second.code) == (11, 0)
    assert first.out.startswith(f"{host.node}: hold 11 passes_insufficient ")


def test_a_quarantined_gpu_is_10_whatever_the_node_is_called(host: Host, service: LiveService) -> None:
    hold(service, host.machine.gpus[3].serial)

    ran = host.boot("--wait", "1s")

    assert ran.code == 10
    assert "device_quarantined" in ran.out


def test_two_gpus_of_one_uuid_are_12(host: Host) -> None:
    one, other = host.machine.gpus[:2]
    document = print_gpus(host.machine, datetime(2026, 11, 29, 12, tzinfo=UTC))
    host.print(document.replace(other.uuid, one.uuid))

    assert host.boot().code == 12


def test_maintenance_is_13(host: Host, service: LiveService) -> None:
    assert host.boot(*LONG).code == 0
    now = datetime.now(UTC)
    until, standing = now + timedelta(hours=1), service.standing
    nodes.set_maintenance(
        standing.database, host.node, until=until, reason="new", actor=ALICE, policy=standing.policy, now=now
    )

    ran = host.boot()

    assert (ran.code, ran.out.split()[1:4]) == (13, ["hold", "13", "maintenance"])


def test_a_server_that_is_away_is_20_and_no_yes(host: Host) -> None:
    host.url = "http://127.0.0.1:9"

    ran = host.boot("--wait", "1s")

    assert ran.code == 20
    assert "127.0.0.1" in ran.out


@pytest.mark.parametrize(
    "answers",
    [
        (TAKEN, Answer(200, b"<html>sign in here</html>")),
        (TAKEN, Answer(200, b"admit 0 -")),
        (TAKEN, Answer(200, b"admit 13 x -\n")),
        (TAKEN, Answer(200, b"hold 0 - -\n")),
        (TAKEN, Answer(200, b"")),
        (TAKEN, Answer(302, b"admit 0 - -\n", headers={"Location": "http://127.0.0.1:9/"})),
        (TAKEN, Answer(200, b"admit 0 - -\n", length=99)),
        (TAKEN, Answer(503, {"code": "store_unavailable", "detail": "no", "instance": "x"})),
        (Answer(503, {"code": "store_unavailable", "detail": "no", "instance": "x"}), Answer(200, b"admit 0 - -\n")),
        (Answer(500, b""), Answer(200, b"admit 0 - -\n")),
        (Answer(404, b"not here"), Answer(200, b"admit 0 - -\n")),
        (Answer(200, b"<html>sign in here</html>"), Answer(200, b"admit 0 - -\n")),
        (Answer(200, {"report_id": "another"}), Answer(200, b"admit 0 - -\n")),
        (Answer(204, b""), Answer(200, b"admit 0 - -\n")),
    ],
    ids=lambda answers: " ".join(f"{one.status}:{getattr(one.body, '__name__', one.body)!r:.24}" for one in answers),
)
def test_what_no_server_of_ours_says_is_20(host: Host, answers: tuple[Answer, ...]) -> None:
    with scripted(*answers) as server:
        host.url = server.url
        ran = host.boot()

    assert ran.code == 20, ran


def test_a_token_that_is_not_known_or_anothers_is_3_at_once(host: Host, service: LiveService) -> None:
    host.token_file.write_text(service.token(Role.NODE, "another"))
    others = host.boot(*LONG)
    host.token_file.write_text("prq_node_nobodys")
    nobodys = host.boot(*LONG)

    assert (others.code, nobodys.code) == (3, 3)
    assert "bound to node another" in others.err


@pytest.mark.parametrize(
    "lines",
    ["exit 9", "echo '<nvidia_smi_log><gpu'", 'head -c 3000 "$0.xml"', "echo 'No devices were found'", "kill -9 $$"],
)
def test_a_gpu_tool_without_a_whole_answer_is_4_even_for_a_node_that_was_admitted(host: Host, lines: str) -> None:
    assert host.boot(*LONG).code == 0
    host.tool("nvidia-smi", lines)

    ran = host.boot()

    assert ran.code == 4, ran
    assert "nvidia" in ran.out


def test_a_gpu_that_the_tool_cannot_reach_is_held_though_nothing_else_is_printed(
    host: Host, service: LiveService
) -> None:
    assert host.boot(*LONG).code == 0
    lost = host.machine.gpus[2]
    place = host.machine.slot_of(lost)
    host.tool("nvidia-smi", f"echo 'Unable to determine the device handle for GPU{place}: Unknown Error'; exit 255")

    ran = host.boot()

    assert ran.code == 10, ran
    assert "device_quarantined" in ran.out
    (failure,) = failure_pages.list_failures(service.standing.database, {"node": host.node}, EVERYTHING).items
    assert failure["serial"] == lost.serial


def test_a_tool_that_hangs_is_killed_and_is_4(host: Host, tmp_path: Path) -> None:
    short = tmp_path / "short.sh"
    short.write_text(SCRIPT.read_text().replace("LIMIT=20 ", "LIMIT=2 "))
    host.tool("nvidia-smi", 'echo $$ >"$0.pid"\nexec sleep 50')

    begun = time.monotonic()
    ran = host.run(*host.options(), host.node, script=short)

    assert ran.code == 4
    assert time.monotonic() - begun < 20
    with pytest.raises(ProcessLookupError):
        os.kill(int((host.folder / "bin" / "nvidia-smi.pid").read_text()), 0)


def test_a_node_without_any_tool_is_4(host: Host) -> None:
    for tool in ("nvidia-smi", "dmesg"):
        (host.folder / "bin" / tool).unlink()
    host.environment["PATH"] = str(only_basic_tools(host.folder / "basic"))

    shutil.rmtree(host.root / "sys")

    ran = host.boot()

    assert ran.code == 4
    assert "neither a PCI bus nor RDMA devices" in ran.out


def test_a_tool_that_is_gone_takes_the_admission_with_it(host: Host) -> None:
    host.write("sys/bus/pci/devices/0000:53:00.0/vendor", "0x10de\n")
    host.write("sys/bus/pci/devices/0000:53:00.0/class", "0x030200\n")
    assert host.boot(*LONG).code == 0
    (host.folder / "bin" / "nvidia-smi").unlink()
    assert host.boot().code == 4

    asked = subprocess.run(
        ["curl", "-sS", f"{host.url}/v1/nodes/{host.node}/admission", "-H", "Accept: text/plain", "-H", "@-"],
        input=f"Authorization: Bearer {host.token_file.read_text()}",
        capture_output=True,
        text=True,
        check=True,
    )

    assert asked.stdout.startswith("hold 13 check_unknown")


def test_gpus_on_the_bus_and_no_tool_to_ask_about_them_are_4(host: Host) -> None:
    (host.folder / "bin" / "nvidia-smi").unlink()
    (host.folder / "bin" / "dmesg").write_text("#!/bin/sh\n")
    host.write("sys/bus/pci/devices/0000:53:00.0/vendor", "0x10de\n")
    host.write("sys/bus/pci/devices/0000:53:00.0/class", "0x030200\n")

    ran = host.boot()

    assert ran.code == 4
    assert "no nvidia-smi" in ran.out


def only_basic_tools(folder: Path) -> Path:
    """Link what every Unix has, and curl."""
    folder.mkdir()
    names = (
        "sh",
        "curl",
        "cat",
        "cp",
        "date",
        "grep",
        "head",
        "ls",
        "mkdir",
        "mktemp",
        "mv",
        "rm",
        "sed",
        "sleep",
        "uname",
    )
    for name in names:
        (folder / name).symlink_to(shutil.which(name) or name)
    return folder


def test_adapters_are_read_out_of_sysfs_and_links_of_software_are_none(host: Host, service: LiveService) -> None:
    card = "sys/class/infiniband/rdmap79s0"
    uevent = "DRIVER=efa\nPCI_CLASS=20000\nPCI_ID=1D0F:EFA2\nPCI_SLOT_NAME=0000:4f:00.0\n"
    for path, text in {
        f"{card}/fw_ver": "0.0.0.0\n",
        f"{card}/node_guid": "0000:0000:0000:0000\n",
        f"{card}/hw_counters/lifespan": "12\n",
        f"{card}/ports/1/state": "4: ACTIVE\n",
        f"{card}/ports/1/gids/0": "fe80:0000:0000:0000:00de:00ff:fe00:0001\n",
        f"{card}/device/vendor": "0x1d0f\n",
        f"{card}/device/device": "0xefa2\n",
        f"{card}/device/uevent": uevent,
        "sys/bus/pci/devices/0000:60:00.0/vendor": "0x1d0f\n",
        "sys/bus/pci/devices/0000:60:00.0/device": "0xefa2\n",
        "sys/class/net/eth0/address": "02:de:00:00:00:01\n",
        "sys/class/net/eth0/operstate": "up\n",
    }.items():
        host.write(path, text)
    (host.root / "sys/class/infiniband/rxe0").symlink_to("../../devices/virtual/infiniband/rxe0")

    ran = host.boot()

    assert ran.code == 11, ran
    now, standing = datetime.now(UTC), service.standing
    shown = nodes.show_node(standing.database, host.node, policy=standing.policy, now=now)
    assert [one["slot"] for one in shown["devices"] if one["kind"] == "efa"] == ["0000:4f:00.0", "0000:60:00.0"]
    links = next(one for one in shown["checks"] if one["name"] == "efa.link")
    assert [one["device"] for one in links["findings"]] == ["0000:60:00.0"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ([], "where is the server"),
        (["--url", "ftp://x"], "where is the server"),
        (["--url"], "--url needs a value"),
        (["--colour", "red"], "no option --colour"),
        (["-x"], "no option -x"),
        (["a", "b"], "one node at a time"),
        (["--url", "http://x", "a/b"], "no name of a node"),
        (["--url", "http://x", "a" * 254], "longer than 253"),
        (["--url", "http://x", "n"], "which instance is this"),
        (["--url", "http://x", "--provider-id", "i", "n"], "what should this node carry"),
        (["--url", "http://x", "--provider-id", 'i"', "--profile", "p", "n"], "no id or name"),
        (["--url", "http://x", "--provider-id", "i", "--profile", "p", "--wait", "soon", "n"], "--wait takes"),
        (["--url", "http://x", "--provider-id", "i", "--profile", "p", "--gap", "-1", "n"], "--gap takes"),
        (["--url", "http://x", "--provider-id", "i", "--profile", "p", "--ca-file", "none", "n"], "certificates none"),
        (["--url", "http://x", "--provider-id", "i", "--profile", "p", "n"], "who asks"),
        (["--url", "http://x", "--provider-id", "i", "--profile", "p", "--token-file", "none", "n"], "who asks"),
    ],
)
def test_a_wrong_use_is_2_and_named(host: Host, changed: list[str], said: str) -> None:
    ran = host.run(f"--root={host.root}", *changed)

    assert ran.code == 2
    assert said in ran.err
    assert left_behind(host) == []


@pytest.mark.parametrize("content", ["", "prq_", "password", "prq_node_a b", "prq_node_ä", "prq_x\x1b[0m"])
def test_a_file_that_holds_no_token_is_2_and_is_not_shown(host: Host, content: str) -> None:
    host.token_file.write_text(content)

    ran = host.boot()

    assert ran.code == 2
    assert not content or content not in ran.err + ran.out


@pytest.mark.parametrize("wait", ["0", "08", "0s", "1s", "0h0m1s"])
def test_a_length_of_time_is_read_as_the_command_reads_it(host: Host, wait: str) -> None:
    host.url = "http://127.0.0.1:9"

    assert host.boot("--wait", wait if wait != "08" else "000").code == 20


def test_the_instance_and_profile_of_an_ec2_machine_are_found(host: Host, service: LiveService) -> None:
    host.write("sys/devices/virtual/dmi/id/sys_vendor", "Amazon EC2\n")
    host.write("sys/devices/virtual/dmi/id/board_asset_tag", "i-0123456789abcdef0\n")
    host.write("sys/devices/virtual/dmi/id/product_name", f"{PROFILE}\n")

    ran = host.run(*("--url", host.url, "--token-file", str(host.token_file), "--root", str(host.root), host.node))

    assert ran.code == 11, ran
    shown = nodes.show_node(service.standing.database, host.node, policy=service.standing.policy, now=datetime.now(UTC))
    assert (shown["provider_id"], shown["profile"]) == ("i-0123456789abcdef0", PROFILE)
    assert shown["boot_id"] == host.machine.boot_id


@pytest.mark.parametrize(
    ("stat", "then"),
    [("cpu 1 2\nbtime 1767225600\nprocesses 9\n", "2026-01-01T00:03:47.986636Z"), ("cpu 1 2\n", None), (None, None)],
)
def test_the_time_of_the_boot_dates_what_dmesg_counts_from_it(
    host: Host, service: LiveService, stat: str | None, then: str | None
) -> None:
    """C58."""
    slot = host.machine.slot_of(host.machine.gpus[3])
    host.tool("dmesg", f"echo '[  227.986636] NVRM: Xid (PCI:{slot[:-2]}): 43, pid=1, name=x, Ch 00000001'")
    if stat is not None:
        host.write("proc/stat", stat)

    assert host.boot().code == 11

    found = failure_pages.list_failures(service.standing.database, {"node": host.node}, EVERYTHING).items
    assert [(one["slot"], one["occurred_at"]) for one in found] == [(slot, then)]


@pytest.mark.parametrize(
    ("uuid", "found"),
    [
        ("4C4C4544-0042-3510-8058-B7C04F4E3233", "dmi:4c4c4544-0042-3510-8058-b7c04f4e3233"),
        ("00000000-0000-0000-0000-000000000000", None),
        ("ffffffff-ffff-ffff-ffff-ffffffffffff", None),
        ("Not Settable", None),
        ("", None),
    ],
)
def test_elsewhere_the_systems_uuid_names_the_instance(
    host: Host, service: LiveService, uuid: str, found: str | None
) -> None:
    host.write("sys/devices/virtual/dmi/id/board_asset_tag", "To Be Filled By O.E.M.\n")
    host.write("sys/devices/virtual/dmi/id/product_uuid", f"{uuid}\n")
    options = ("--url", host.url, "--token-file", str(host.token_file), "--root", str(host.root), "--profile", PROFILE)

    ran = host.run(*options, host.node)

    assert ran.code == (11 if found else 2), ran
    if found:
        now = datetime.now(UTC)
        shown = nodes.show_node(service.standing.database, host.node, policy=service.standing.policy, now=now)
        assert shown["provider_id"] == found


def test_an_instance_that_was_replaced_is_13_at_once(host: Host) -> None:
    assert host.boot(*LONG).code == 0
    new = host.run(*[part.replace(host.machine.provider_id, "i-new") for part in host.options()], host.node)

    old = host.boot(*LONG)

    assert (new.code, old.code) == (11, 13)
    assert "i-new" in old.err


def test_the_token_stands_on_no_command_line_and_in_no_output_and_no_tool_gets_it(host: Host) -> None:
    token = host.token_file.read_text().strip()
    host.environment["PRATIQUE_TOKEN"] = token
    host.tool("curl", f'printf "%s\\n" "$@" >>"$0.log"\nexec {shutil.which("curl")} "$@"')
    host.tool("dmesg", 'env >"$0.log"\necho "[ 0.0] Linux version 6"')
    options = [part for part in host.options() if part not in {"--token-file", str(host.token_file)}]

    ran = host.run(*options, *LONG, host.node)

    assert ran.code == 0, ran
    logged = [path.read_text() for path in (host.folder / "bin").glob("*.log")]
    assert len(logged) == 2
    assert not [text for text in (*logged, ran.out, ran.err) if token in text or "prq_" in text]


def left_behind(host: Host) -> list[Path]:
    return list((host.folder / "t m p").iterdir())


def test_nothing_is_left_behind(host: Host) -> None:
    host.boot()

    assert left_behind(host) == []


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_one_that_is_told_to_end_leaves_nothing_behind_either(host: Host, sign: signal.Signals) -> None:
    host.tool("nvidia-smi", "exec sleep 50")
    # A shell cannot catch what was ignored when it began, as under nohup or behind a script's "&".
    caught = ["/usr/bin/env", f"--default-signal={sign.name.removeprefix('SIG')}"]
    process = subprocess.Popen(
        [*caught, *host.command(*host.options(), host.node)],
        cwd=host.folder,
        env=host.environment,
        stderr=subprocess.DEVNULL,
    )
    while not list((host.folder / "t m p").glob("*/look1/nvidia*.pid")):
        time.sleep(0.01)

    process.send_signal(sign)

    assert process.wait(timeout=10) == 128 + sign
    assert left_behind(host) == []


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("is_silent", [False, True], ids=["between two rounds", "while a server is silent"])
def test_told_to_end_it_ends_at_once_and_what_it_started_with_it(host: Host, shell: str, is_silent: bool) -> None:
    for tool in ("curl", "sleep"):
        host.tool(tool, f'echo $$ >>"$0.pids"\nexec {shutil.which(tool)} "$@"')
    with socket.create_server(("127.0.0.1", 0)) as silent, ExitStack() as stack:
        if is_silent:
            host.url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        command = host.command(*host.options("--wait", "5m", "--gap", "50"), host.node, shell=shell)
        process = stack.enter_context(
            subprocess.Popen(command, cwd=host.folder, env=host.environment, stderr=subprocess.PIPE, text=True)
        )
        if is_silent:
            stack.enter_context(silent.accept()[0])
        elif process.stderr is not None:
            process.stderr.readline()  # that it waits
            time.sleep(0.3)

        process.terminate()
        begun = time.monotonic()
        code = process.wait(timeout=60)

    assert (code, time.monotonic() - begun < 3) == (128 + signal.SIGTERM, True)
    assert left_behind(host) == []
    started = [int(pid) for file in (host.folder / "bin").glob("*.pids") for pid in file.read_text().split()]
    assert all(is_gone(pid) for pid in started)


def test_of_a_script_that_was_cut_off_nothing_is_done(host: Host, tmp_path: Path) -> None:
    text = SCRIPT.read_text()
    cut = tmp_path / "cut.sh"
    for at in range(200, len(text) - 3, 997):
        cut.write_text(text[:at])

        ran = host.run(*host.options(), host.node, script=cut)

        assert ran.code != 0, at
        assert ran.out == ""


def test_help_tells_every_code_and_option(host: Host) -> None:
    ran = host.run("--help")

    assert ran.code == 0
    assert all(f"  {code} " in ran.out for code in (0, 10, 11, 12, 13, 20, 2))
    assert all(option in ran.out for option in ("--wait", "--join-token-file", "--provider-id", "--root"))


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_reads_it(host: Host, shell: str) -> None:
    command = host.command(shell=shell)

    assert subprocess.run([*command[:-1], "-n", command[-1]], capture_output=True, check=True).stderr == b""


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing() -> None:
    done = subprocess.run(["shellcheck", "--shell=sh", SCRIPT], capture_output=True, text=True, check=False)

    assert done.stdout == ""
