# SPDX-License-Identifier: Apache-2.0
"""Do the boot script and `pratique admit` end alike, on the same hardware and against the same server?"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from registry.admin.demo_hardware import print_gpus
from registry.domain.roles import Role
from registry.services import nodes
from tests.cli.scripted import Answer, scripted
from tests.deploy.conftest import PROFILE, SYSTEM, Host, LiveService
from tests.deploy.test_bootstrap import hold

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("curl") is None, reason="the script needs curl")]

Change = Callable[[Host, LiveService], None]


def command_code(host: Host, *more: str) -> int:
    """What the command ends with on this machine."""
    where = ("--root", str(host.root), "--provider-id", host.machine.provider_id, "--profile", PROFILE, "--gap", "0")
    done = subprocess.run(
        [sys.executable, "-m", "registry.main", "admit", host.node, "--here", *where, *more],
        env={**host.environment, "PRATIQUE_URL": host.url, "PRATIQUE_TOKEN_FILE": str(host.token_file)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode


def nothing(host: Host, service: LiveService) -> None:
    """Leave all as it is."""


def quarantined(host: Host, service: LiveService) -> None:
    hold(service, host.machine.gpus[5].serial)


def twins(host: Host, service: LiveService) -> None:
    one, other = host.machine.gpus[:2]
    host.print(print_gpus(host.machine, datetime(2026, 11, 29, 12, tzinfo=UTC)).replace(other.uuid, one.uuid))


def in_maintenance(host: Host, service: LiveService) -> None:
    assert host.boot("--wait", "30s").code == 0
    now, standing = datetime.now(UTC), service.standing
    until = now + timedelta(hours=1)
    nodes.set_maintenance(
        standing.database, host.node, until=until, reason="x", actor=SYSTEM, policy=standing.policy, now=now
    )


def replaced(host: Host, service: LiveService) -> None:
    assert host.boot().code == 11
    host.run(*[part.replace(host.machine.provider_id, "i-new") for part in host.options()], host.node)


def anothers_token(host: Host, service: LiveService) -> None:
    host.token_file.write_text(service.token(Role.NODE, "another"))


def silent_tool(host: Host, service: LiveService) -> None:
    host.tool("nvidia-smi", "exit 9")


def cut_off(host: Host, service: LiveService) -> None:
    host.tool("nvidia-smi", 'head -c 3000 "$0.xml"')


def no_tool(host: Host, service: LiveService) -> None:
    (host.folder / "bin" / "nvidia-smi").unlink()
    host.write("sys/bus/pci/devices/0000:53:00.0/vendor", "0x10de\n")
    host.write("sys/bus/pci/devices/0000:53:00.0/class", "0x030200\n")


def no_sysfs(host: Host, service: LiveService) -> None:
    shutil.rmtree(host.root / "sys")


def broken_dcgm(host: Host, service: LiveService) -> None:
    host.tool("dcgmi", "exit 1")


def deaf_dcgm(host: Host, service: LiveService) -> None:
    host.tool("dcgmi", "echo 'Error: unable to establish a connection to the specified host: localhost'; exit 1")


def silent_log(host: Host, service: LiveService) -> None:
    host.tool("dmesg", "exit 1")
    (host.root / "dev/kmsg").unlink()
    host.tool("journalctl", "exit 1")


def fallen_off(host: Host, service: LiveService) -> None:
    line = "NVRM: Xid (PCI:0000:53:00): 79, pid=1, GPU has fallen off the bus."
    host.tool("dmesg", f"echo '[    0.000000] Linux version 6.8.0'; echo '[   12.000000] {line}'")
    host.write("dev/kmsg", f"5,1,0,-;Linux version 6.8.0\n4,2,12000000,-;{line}\n")


def away(host: Host, service: LiveService) -> None:
    host.url = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("change", "code", "wait"),
    [
        (nothing, 0, ("--wait", "30s")),
        (quarantined, 10, ()),
        (twins, 12, ()),
        (in_maintenance, 13, ()),
        (fallen_off, 10, ()),
        (replaced, 13, ("--wait", "30s")),
        (anothers_token, 3, ("--wait", "30s")),
        (silent_tool, 4, ()),
        (cut_off, 4, ()),
        (no_tool, 4, ()),
        (no_sysfs, 4, ()),
        (broken_dcgm, 11, ("--wait", "1s")),
        (deaf_dcgm, 11, ("--wait", "1s")),
        (silent_log, 13, ("--wait", "1s")),
        (away, 20, ()),
        (away, 20, ("--wait", "1s")),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_both_end_alike(host: Host, service: LiveService, change: Change, code: int, wait: tuple[str, ...]) -> None:
    host.write("dev/kmsg", "5,1,0,-;Linux version 6.8.0\n")
    change(host, service)

    assert (host.boot(*wait).code, command_code(host, *wait)) == (code, code)


@pytest.mark.parametrize(
    ("status", "problem", "code"),
    [
        (422, "invalid_field", 2),
        (422, "part_unreadable", 4),
        (409, "instance_superseded", 13),
        (409, "idempotency_in_progress", 20),
        (413, "body_too_large", 4),
        (401, "unauthenticated", 3),
        (500, "internal", 20),
        (503, "store_unavailable", 20),
    ],
)
def test_both_take_a_refused_report_alike(host: Host, status: int, problem: str, code: int) -> None:
    host.write("dev/kmsg", "5,1,0,-;Linux version 6.8.0\n")
    with scripted(Answer(status, {"code": problem, "detail": "no", "instance": "x", "errors": []})) as server:
        host.url = server.url

        assert (host.boot().code, command_code(host)) == (code, code)
