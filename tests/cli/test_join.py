# SPDX-License-Identifier: Apache-2.0
"""Does `pratique join` keep the new token for itself, and trade for none that it could not keep?"""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from registry.main import main
from tests.cli.conftest import Pratique
from tests.cli.scripted import Answer, scripted

OPTIONS = ("--provider-id", "i-1", "--boot-id", "boot-1", "--profile", "p5.48xlarge")


def join(url: str, into: Path, *more: str, token: str | None = None) -> Result:
    environment = {"PRATIQUE_URL": url, "PRATIQUE_TOKEN": token or "prq_join_x"}
    return CliRunner(env=environment).invoke(main, ["join", "gpu-1", *OPTIONS, "--into", str(into), *more])


def test_a_node_joins_and_only_it_can_read_its_token(pratique: Pratique, tmp_path: Path) -> None:
    into = tmp_path / "token"

    result = join(pratique.url, into, token=pratique.tokens["admin"])

    assert result.exit_code == 0, result.output
    assert stat.S_IMODE(into.stat().st_mode) == 0o600
    assert into.read_text().startswith("prq_node_")
    assert "prq_" not in result.output
    pratique.tokens["gpu-1"] = into.read_text().strip()
    assert pratique("admit", "gpu-1", who="gpu-1").exit_code == 13


def test_the_answer_for_programs_is_without_the_secret(pratique: Pratique, tmp_path: Path) -> None:
    result = join(pratique.url, tmp_path / "token", "--output", "json", token=pratique.tokens["admin"])

    told = json.loads(result.stdout)
    assert (told["node"], told["provider_id"], told["token_file"]) == ("gpu-1", "i-1", str(tmp_path / "token"))
    assert "token" not in told


def test_a_second_trade_is_refused_and_leaves_no_file(pratique: Pratique, tmp_path: Path) -> None:
    join(pratique.url, tmp_path / "token", token=pratique.tokens["admin"])

    again = join(pratique.url, tmp_path / "other", token=pratique.tokens["admin"])

    assert again.exit_code == 3
    assert "already_joined" in again.stderr
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(("status", "code"), [(403, 3), (401, 3), (500, 20)])
def test_a_refusal_leaves_no_file(tmp_path: Path, status: int, code: int) -> None:
    with scripted(Answer(status, {"code": "forbidden", "detail": "no"})) as server:
        result = join(server.url, tmp_path / "token")

    assert result.exit_code == code
    assert not (tmp_path / "token").exists()


@pytest.mark.parametrize("place", ["token", "missing/token"])
def test_no_trade_is_made_for_a_token_that_cannot_be_kept(tmp_path: Path, place: str) -> None:
    (tmp_path / "token").write_text("something else")
    with scripted(Answer(201, {"token": "prq_node_x"})) as server:
        result = join(server.url, tmp_path / place)

    assert result.exit_code == 2
    assert server.asked == []
    assert (tmp_path / "token").read_text() == "something else"


@pytest.mark.parametrize("body", [{"status": "ok"}, {"token": 5}, {"token": "a\nb"}, b"[" * 100_000, [1]])
def test_an_answer_without_a_token_is_none_and_leaves_no_file(tmp_path: Path, body: object) -> None:
    with scripted(Answer(201, body)) as server:
        result = join(server.url, tmp_path / "token")

    assert (result.exit_code, result.stderr.startswith("pratique: ")) == (20, True)
    assert not (tmp_path / "token").exists()
