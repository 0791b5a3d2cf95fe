# SPDX-License-Identifier: Apache-2.0
"""Does the boot script trade a join token for one of its node's own, once, and keep it?"""

from __future__ import annotations

import shutil
import stat
import subprocess
from datetime import UTC, datetime

import pytest

from registry.admin.demo_hardware import make_machine, print_gpus
from registry.domain.roles import Role
from registry.services import tokens
from tests.cli.scripted import Answer, scripted
from tests.deploy.conftest import SHELLS, Host, LiveService, Ran

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("curl") is None, reason="the script needs curl")]

LONG = ("--wait", "30s")
NO_PROBLEM = b"<html>who are you?</html>"


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


@pytest.mark.parametrize("status", [400, 401, 403, 409, 422])
def test_what_a_proxy_refuses_is_20_when_joining(host: Host, status: int) -> None:
    host.token_file.unlink()
    (host.folder / "join token").write_text("prq_join_x")
    with scripted(Answer(status, NO_PROBLEM)) as server:
        host.url = server.url
        ran = join(host)

    assert ran.code == 20
    assert list(host.folder.glob("a token*")) == []
