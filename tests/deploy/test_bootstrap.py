# SPDX-License-Identifier: Apache-2.0
"""Does the boot script end with the code of the decision, under every shell, and never with 0 for anything else?"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from registry.admin.demo_hardware import make_machine, print_gpus
from registry.domain.events import Actor, ActorKind
from registry.domain.roles import Role
from registry.services import failure_pages, nodes, tokens
from registry.services.quarantine import OpenQuarantines, open_quarantines
from tests.cli.scripted import Answer, scripted
from tests.deploy.conftest import PROFILE, SCRIPT, SHELLS, Host, LiveService, Ran
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
        (Answer(200, {}), Answer(200, b"<html>sign in here</html>")),
        (Answer(200, {}), Answer(200, b"admit 0 -")),
        (Answer(200, {}), Answer(200, b"admit 13 x -\n")),
        (Answer(200, {}), Answer(200, b"hold 0 - -\n")),
        (Answer(200, {}), Answer(200, b"")),
        (Answer(200, {}), Answer(302, b"admit 0 - -\n", headers={"Location": "http://127.0.0.1:9/"})),
        (Answer(200, {}), Answer(200, b"admit 0 - -\n", length=99)),
        (Answer(200, {}), Answer(503, {"code": "store_unavailable", "detail": "no", "instance": "x"})),
        (Answer(503, {"code": "store_unavailable", "detail": "no", "instance": "x"}), Answer(200, b"admit 0 - -\n")),
        (Answer(500, b""), Answer(200, b"admit 0 - -\n")),
        (Answer(404, b"not here"), Answer(200, b"admit 0 - -\n")),
    ],
    ids=lambda answers: " ".join(f"{one.status}:{one.body!r:.24}" for one in answers),
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
    process = subprocess.Popen(
        host.command(*host.options(), host.node), cwd=host.folder, env=host.environment, stderr=subprocess.DEVNULL
    )
    while not list((host.folder / "t m p").glob("*/look1/nvidia*.pid")):
        time.sleep(0.01)

    process.send_signal(sign)

    assert process.wait(timeout=10) == 128 + sign
    assert left_behind(host) == []


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


# --- joining --------------------------------------------------------------------------------------------------------


def join(host: Host, *more: str, shell: str = "sh") -> Ran:
    return host.boot("--join-token-file", str(host.folder / "join token"), *more, shell=shell)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_new_node_joins_and_is_admitted(host: Host, service: LiveService, shell: str) -> None:
    host.token_file.unlink()
    (host.folder / "join token").write_text(service.token(Role.JOIN, uses=1, pattern="node-*"))

    ran = join(host, *LONG, shell=shell)
    again = join(host, shell=shell)

    assert (ran.code, again.code) == (0, 0), ran.err
    assert stat.S_IMODE(host.token_file.stat().st_mode) == 0o600
    kept = tokens.authenticate(service.standing.database, host.token_file.read_text().strip(), service.standing.pepper)
    assert (kept.node, kept.provider_id) == (host.node, host.machine.provider_id)
    assert "prq_" not in ran.err + ran.out


def test_a_second_trade_is_3_and_says_what_to_do(host: Host, service: LiveService) -> None:
    host.token_file.unlink()
    (host.folder / "join token").write_text(service.token(Role.JOIN))
    assert join(host, *LONG).code == 0
    host.token_file.unlink()

    ran = join(host, *LONG)

    assert ran.code == 3
    assert "let an administrator revoke token" in ran.err
    assert list(host.folder.glob("a token*")) == []


def test_a_join_token_for_others_is_3(host: Host, service: LiveService) -> None:
    host.token_file.unlink()
    (host.folder / "join token").write_text(service.token(Role.JOIN, pattern="gpu-*"))

    ran = join(host)

    assert ran.code == 3
    assert "nodes named gpu-*" in ran.err


def test_no_trade_is_made_for_a_token_that_cannot_be_kept(host: Host) -> None:
    host.token_file.unlink()
    (host.folder / "join token").write_text("prq_join_x")
    with scripted(Answer(201, {"token": "prq_node_x"})) as server:
        host.url = server.url
        ran = join(host, "--token-file", str(host.folder / "nowhere" / "token"))

    assert ran.code == 2
    assert server.asked == []


def test_a_joined_token_speaks_for_no_other_instance(host: Host, service: LiveService) -> None:
    host.token_file.unlink()
    (host.folder / "join token").write_text(service.token(Role.JOIN))
    assert join(host, *LONG).code == 0
    other = make_machine(host.node, 9000)
    host.machine = other

    ran = host.boot(*LONG)

    assert ran.code == 3
    assert "bound to instance" in ran.err


def test_what_is_left_of_an_earlier_instances_token_is_traded_for_ones_own(host: Host, service: LiveService) -> None:
    host.token_file.unlink()
    (host.folder / "join token").write_text(service.token(Role.JOIN))
    assert join(host, *LONG).code == 0
    host.machine = make_machine(host.node, 9001)
    host.print(print_gpus(host.machine, datetime(2026, 11, 29, 12, tzinfo=UTC)))

    ran, again = join(host, *LONG), host.boot()

    assert (ran.code, again.code) == (0, 0), ran
    assert "bound to instance" in ran.err


def test_of_two_that_join_at_once_both_have_the_one_token(host: Host, service: LiveService) -> None:
    host.token_file.unlink()
    (host.folder / "join token").write_text(service.token(Role.JOIN))
    command = host.command(*host.options("--join-token-file", str(host.folder / "join token"), *LONG), host.node)
    runs = [
        subprocess.Popen(command, cwd=host.folder, env=host.environment, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]

    ended = [(run.communicate(timeout=60)[1], run.returncode) for run in runs]

    assert [code for _, code in ended] == [0, 0, 0], ended
    assert sum("joined; its token" in said for said, _ in ended) == 1
    assert list(host.folder.glob("a token*")) == [host.token_file]


NO_PROBLEM = b"<html>who are you?</html>"


@pytest.mark.parametrize("status", [400, 401, 403, 409, 422])
def test_what_a_proxy_refuses_is_20_when_joining(host: Host, status: int) -> None:
    host.token_file.unlink()
    (host.folder / "join token").write_text("prq_join_x")
    with scripted(Answer(status, NO_PROBLEM)) as server:
        host.url = server.url
        ran = join(host)

    assert ran.code == 20
    assert list(host.folder.glob("a token*")) == []


@pytest.mark.parametrize("status", [400, 401, 403, 409, 422])
@pytest.mark.parametrize("before", [(), (Answer(200, {}),)], ids=["report", "admission"])
def test_what_a_proxy_refuses_is_20(host: Host, before: tuple[Answer, ...], status: int) -> None:
    with scripted(*before, Answer(status, NO_PROBLEM), Answer(status, NO_PROBLEM)) as server:
        host.url = server.url
        ran = host.boot()

    assert ran.code == 20


# --- what surrounds it ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_no_locale_changes_what_a_name_or_an_id_is(host: Host, tmp_path: Path) -> None:
    """Before bash 5.0 `[a-z]` was what the locale sorts so, as `globasciiranges` still lets it be."""
    host.write("sys/devices/virtual/dmi/id/sys_vendor", "Amazon EC2\n")
    host.write("sys/devices/virtual/dmi/id/board_asset_tag", "i-0123456789abcdef0\n")
    host.environment |= {"LC_ALL": "C.UTF-8", "LANG": "C.UTF-8"}
    host.tool("dmesg", 'echo "$LC_ALL" >"$0.locale"\necho "[ 0.0] Linux version 6"')

    ran = host.boot(shell="bash")

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
    host.tool("dmesg", "i=0; while [ $i -lt 1000 ]; do i=$((i + 1)); echo \"[    $i.000000] line $i\"; done")
    short = host.folder / "short.sh"
    short.write_text(SCRIPT.read_text().replace("LOG_MOST=4194304", "LOG_MOST=1000"))
    with scripted(Answer(200, {}), Answer(200, b"admit 0 - -\n")) as server:
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


def is_gone(process: int) -> bool:
    """Whether a process has ended; a dead one that nobody has asked after counts as ended."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return True


def test_a_tool_that_writes_for_ever_is_stopped(host: Host) -> None:
    host.tool("ibv_devinfo", "exec yes")
    short = host.folder / "short.sh"
    short.write_text(SCRIPT.read_text().replace("TOOL_MOST=65536", "TOOL_MOST=64"))
    begun = time.monotonic()
    with scripted(Answer(200, {}), Answer(200, b"admit 0 - -\n")) as server:
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
