# SPDX-License-Identifier: Apache-2.0
"""Are the thresholds the promised ones, and does the digest change with whatever could change a decision?"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re

import pytest

from registry.domain import failures as failures_module
from registry.domain import policy as policy_module
from registry.domain import policy_repairs
from registry.domain.failures import CATALOGUE, Effect
from registry.domain.policy import Policy, digest_of
from registry.domain.rules import Rule
from registry.domain.tolerances import Limits, Tolerance


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pass_count", 2),
        ("pass_gap_seconds", 30),
        ("pass_max_age_seconds", 900),
        ("report_stale_seconds", 120),
        ("future_tolerance_seconds", 5),
        ("outage_gap_seconds", 30),
        ("life_sign_seconds", 10),
        ("receipts_kept", 64),
        ("board_units_max", 8),
        ("node_active_hours", 24),
        ("after_passes_count", 2),
        ("efa_grace_seconds", 120),
        ("heat_warn_celsius", 10),
        ("heat_fail_celsius", 15),
        ("heat_clear_celsius", 7),
        ("heat_window_seconds", 300),
        ("heat_counts", False),
        ("breaker_window_seconds", 600),
        ("breaker_fleet_percent", 5),
        ("breaker_profile_percent", 10),
        ("breaker_zone_percent", 20),
        ("breaker_limit_min", 1),
        ("breaker_permanent_min", 4),
        ("condition_accelerated_seconds", 600),
        ("condition_other_seconds", 1800),
        ("condition_clear_seconds", 300),
        ("condition_unknown_seconds", 1800),
        ("condition_flap_changes", 6),
        ("repair_enabled", True),
        ("repair_fleet_percent", 5),
        ("repair_profile_percent", 10),
        ("repair_zone_percent", 20),
        ("repair_lease_seconds", 1800),
        ("condition_flap_window_seconds", 3600),
    ],
)
def test_a_threshold_has_its_promised_default(field: str, value: int) -> None:
    assert getattr(Policy(), field) == value


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Policy)])
def test_every_threshold_has_its_reason_beside_it(field: str) -> None:
    source = inspect.getsource(policy_module) + inspect.getsource(policy_repairs)

    assert re.search(rf'^    {field}: [^\n]+ = \S+\n    """\w', source, re.MULTILINE)


def test_the_digest_is_a_sha256_and_equal_for_equal_policies() -> None:
    assert re.fullmatch("sha256:[0-9a-f]{64}", Policy().digest)
    assert Policy().digest == Policy().digest == digest_of(Policy())


@pytest.mark.parametrize("field", Policy().thresholds())
def test_changing_any_threshold_changes_the_digest(field: str) -> None:
    changed = dataclasses.replace(Policy(), **{field: getattr(Policy(), field) + 1})

    assert changed.digest != Policy().digest


def test_changing_the_effect_of_one_code_changes_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest_of.__wrapped__(Policy())
    milder = dataclasses.replace(CATALOGUE["xid_63"], effect=Effect.RECORD)

    monkeypatch.setattr(failures_module, "CATALOGUE", {**CATALOGUE, "xid_63": milder})

    assert digest_of.__wrapped__(Policy()) != before


def test_the_policy_shows_its_thresholds_and_the_effect_of_every_code() -> None:
    shown = json.loads(json.dumps(Policy(pass_count=3).to_json()))

    assert shown["pass_count"] == 3
    assert shown["effects"]["xid_79"] == "permanent"
    assert set(shown["effects"]) == set(CATALOGUE)
    assert shown["unknown_code_effect"] == "hold"


@pytest.mark.parametrize(
    "changed",
    [
        Policy(unknown_code_effect=Effect.RECORD),
        Policy(effects=(("xid_31", Effect.HOLD),)),
        Policy(effects=(("lab.burnin", Effect.RECORD),)),
        Policy(rules=()),
        Policy(conditions=()),
        Policy(repair_trusted_checks=()),
        Policy(conditions=(Tolerance("gpu.ecc", tolerance_seconds=60),)),
        Policy(rules=(Rule("many", count=3, within_seconds=600, codes=("xid_43",)),)),
    ],
)
def test_effects_and_rules_change_the_digest(changed: Policy) -> None:
    assert changed.digest != Policy().digest


def test_an_effect_of_the_policy_goes_before_the_catalogues() -> None:
    policy = Policy(effects=(("lab.burnin", Effect.PERMANENT), ("xid_79", Effect.HOLD)))

    assert policy.look_up("xid_79").effect is Effect.HOLD
    assert policy.look_up("lab.burnin").release_policy == "manual"
    assert policy.look_up("xid_64") == CATALOGUE["xid_64"]


def test_what_an_unknown_code_does_can_be_set() -> None:
    assert Policy().look_up("a_code_of_tomorrow").effect is Effect.HOLD
    assert Policy(unknown_code_effect=Effect.RECORD).look_up("a_code_of_tomorrow").effect is Effect.RECORD


def test_no_policy_makes_a_restart_a_fault() -> None:
    assert Policy(effects=(("gpu_reset", Effect.PERMANENT),)).look_up("gpu_reset").effect is Effect.RECORD


def test_what_is_said_of_one_condition_goes_before_what_is_said_of_all() -> None:
    own = (Tolerance("gpu.ecc", tolerance_seconds=60, clear_seconds=5), Tolerance("gpu.ecc.flapping", never=True))
    policy = Policy(conditions=own, condition_accelerated_seconds=0)

    assert policy.limits_of("gpu.ecc") == Limits(60, 5, 1800)
    assert policy.limits_of("gpu.ecc.flapping") == Limits(None, 300, 1800)
    assert policy.limits_of("gpu.xid") == Limits(0, 300, 1800)
    assert policy.limits_of("gpu.xid.flapping") == Limits(0, 300, 1800)


def test_whatever_a_policy_holds_is_shown_and_so_in_the_digest() -> None:
    fields = {field.name for field in dataclasses.fields(Policy)}

    assert fields == {
        *Policy().thresholds(),
        "conditions",
        "effects",
        "repair_trusted_checks",
        "rules",
        "slo",
        "unknown_code_effect",
    }
    assert fields == set(Policy().to_json())
