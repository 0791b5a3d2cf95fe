# SPDX-License-Identifier: Apache-2.0
"""Are public outputs of dcgmi read as people read them?

The captures are not part of this project; the test runs where they are kept beside it, or where PRATIQUE_CORPUS says.
"""

from __future__ import annotations

import json

import pytest

from registry.collectors import dcgm_diag, dcgm_health
from registry.domain.failures import look_up
from registry.domain.reports import CheckStatus, Findings
from tests.collectors.test_corpus import CORPUS

pytestmark = pytest.mark.skipif(not (CORPUS / "dcgm").is_dir(), reason="the captures are not here")


def statuses(found: Findings) -> dict[str | None, str]:
    return {check.device: str(check.status) for check in found.checks}


def diag(name: str) -> Findings:
    return dcgm_diag.parse((CORPUS / name).read_bytes())


def health(name: str) -> Findings:
    return dcgm_health.parse((CORPUS / name).read_bytes())


def test_the_one_gpu_that_failed_is_found_and_no_other() -> None:
    found = diag("derived/dcgm3-diag-one-fail.txt")

    assert statuses(found) == {f"gpu:{at}": "fail" if at == 5 else "pass" for at in range(8)}
    assert [failure.device for failure in found.failures] == ["gpu:5"]


def test_a_new_word_in_place_of_fail_still_fails_it() -> None:
    data = (CORPUS / "derived/dcgm3-diag-one-fail.txt").read_bytes().replace(b'"FAIL"', b'"Failed!"')

    assert statuses(dcgm_diag.parse(data))["gpu:5"] == "fail"


def test_a_setting_on_all_gpus_is_the_nodes() -> None:
    found = diag("derived/dcgm4-diag-config-only-fail.json")

    assert statuses(found) == {None: "unknown"}
    assert found.failures == ()


def test_one_of_them_to_isolate_goes_alone() -> None:
    document = json.loads((CORPUS / "derived/dcgm4-diag-config-only-fail.json").read_text())
    results = document["DCGM Diagnostic"]["test_categories"][0]["tests"][0]["results"]
    results[2]["warnings"][0]["error_severity"] = 2

    (failure,) = dcgm_diag.parse(json.dumps(document).encode()).failures

    assert failure.device == "1650000000012"
    assert look_up(failure.code).effect == "quarantine"


def test_the_long_diagnostic_skips_on_every_gpu_and_blames_none() -> None:
    found = diag("dcgm/diag-PER_GPU_JSON.json")

    assert statuses(found) == {f"gpu:{at}": "skipped" for at in range(4)}
    assert found.failures == ()


def test_the_healthy_watch_is_a_pass() -> None:
    assert statuses(health("dcgm/health-c-j-healthy.json")) == {None: "pass"}


def test_the_failed_watch_is_the_fault_of_its_gpu() -> None:
    found = health("derived/dcgm-health-failure.json")

    assert statuses(found) == {"gpu:2": CheckStatus.FAIL}
    assert [(failure.device, failure.code) for failure in found.failures] == [("gpu:2", "dcgm_health_memory")]
    assert "was counted on GPU 2. Drain" in (found.failures[0].message or "")


def test_watches_that_are_not_enabled_are_unknown() -> None:
    found = health("derived/dcgm-health-not-enabled.txt")

    assert statuses(found) == {None: "unknown"}
    assert found.failures == ()
