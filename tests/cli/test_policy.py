# SPDX-License-Identifier: Apache-2.0
"""Does `pratique policy` tell a valid file from a wrong one, and a policy from NVIDIA's own words?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from registry.domain.failures import CATALOGUE, Effect
from registry.domain.policy import Policy
from registry.domain.vendor_words import MEANT, VENDOR, differences_of
from registry.main import main
from tests.cli.conftest import Pratique
from tests.project import ROOT

EXAMPLE = str(ROOT / "deploy/policy.example.toml")


def offline(*arguments: str, given: str | None = None) -> Result:
    """Run the command where no server is named."""
    unset = dict.fromkeys(("PRATIQUE_URL", "PRATIQUE_TOKEN", "PRATIQUE_TOKEN_FILE"))
    return CliRunner(env=unset).invoke(main, ["policy", *arguments], input=given, catch_exceptions=False)


def test_check_says_valid_and_prints_the_digest_without_a_server() -> None:
    result = offline("check", EXAMPLE)
    assert (result.exit_code, result.stdout) == (0, f"valid\n{Policy().digest}\n")
    assert json.loads(offline("check", "-", "--output", "json", given="").stdout)["digest"] == Policy().digest


def test_check_names_everything_that_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('[thresholds]\npass_cuont = 1\n[effects]\nxid_79 = "x"\n')
    result = offline("check", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert [line.partition(":")[0] for line in result.stderr.splitlines()] == [
        "thresholds.pass_cuont",
        "effects.xid_79",
    ]
    told = json.loads(offline("check", str(file), "--output", "json").stdout)
    assert (told["valid"], len(told["problems"])) == (False, 2)
    file.write_bytes(b"\xff")
    assert offline("check", str(file)).exit_code == 2


def test_diff_of_a_file_tells_milder_from_stronger() -> None:
    given = '[effects]\nxid_79 = "record"\nxid_13 = "hold"\n'
    found = {
        one["code"]: one for one in json.loads(offline("diff", "-", "--output", "json", given=given).stdout)["items"]
    }
    assert (found["xid_79"]["is_milder"], found["xid_79"]["vendor_word"]) == (True, "RESTART_BM")
    assert (found["xid_13"]["is_milder"], found["xid_13"]["vendor_word"]) == (False, "RESTART_APP")
    assert found["xid_63"]["source"].startswith("https://")
    assert "dcgm_faulty_memory" not in found
    text = offline("diff", "-", given=given).stdout.splitlines()
    assert any(line.split() == ["xid_79", "record", "milder", "RESTART_BM", "quarantine"] for line in text)
    assert text[-1].endswith("codes in all")


def test_without_a_file_the_policy_of_the_server_is_compared(pratique: Pratique) -> None:
    built_in = json.loads(offline("diff", EXAMPLE, "--output", "json").stdout)
    assert pratique.json("policy", "diff", who="auditor") == built_in
    assert offline("diff").exit_code == 2


def test_show_tells_the_rules(pratique: Pratique) -> None:
    rules = pratique.json("policy", "show")["rules"]
    assert [one["name"] for one in rules] == [one.name for one in Policy().rules]
    assert "repeat_offender" in pratique("policy", "show").stdout


def test_every_word_of_the_vendor_means_something_and_is_said_of_a_known_code() -> None:
    assert set(VENDOR.values()) == set(MEANT)
    assert set(VENDOR) <= set(CATALOGUE)


@pytest.mark.parametrize("code", VENDOR)
def test_a_policy_that_says_the_vendors_word_differs_in_nothing(code: str) -> None:
    assert differences_of({code: MEANT[VENDOR[code]]}) == []
    assert [one.code for one in differences_of(dict.fromkeys([code], _other(MEANT[VENDOR[code]])))] == [code]


def _other(effect: Effect) -> Effect:
    return Effect.RECORD if effect is not Effect.RECORD else Effect.HOLD
