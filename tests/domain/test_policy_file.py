# SPDX-License-Identifier: Apache-2.0
"""Is a policy file read as it was meant, and is everything that is wrong with one told at once?"""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.domain.failures import CATALOGUE, Effect
from registry.domain.policy import Policy
from registry.domain.policy_file import PolicyError, parse_policy, thresholds_in
from registry.domain.policy_repairs import TRUSTED_CHECKS
from registry.domain.rules import DEFAULT_RULES, Distinct, Over, Rule
from registry.domain.tolerances import DEFAULT_TOLERANCES, Tolerance
from tests.project import ROOT

EXAMPLE = (ROOT / "deploy/policy.example.toml").read_text()
RULE = '[[rules]]\nname = "many"\ncount = 3\nwithin = "10m"\ncodes = ["xid_43"]\n'


def problems(text: str) -> dict[str, str]:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)
    assert str(caught.value).count("\n") == len(caught.value.problems) - 1
    return {one.key: one.remedy for one in caught.value.problems}


def test_the_example_is_the_policy_that_is_built_in_with_every_default_listed() -> None:
    document = tomllib.loads(EXAMPLE)
    assert parse_policy(EXAMPLE).digest == Policy().digest
    assert document["thresholds"] == Policy().thresholds()
    said = [Tolerance(name, never=one == {"tolerance": "never"}) for name, one in document["conditions"].items()]
    assert tuple(said) == DEFAULT_TOLERANCES
    assert tuple(document["repairs"]["trusted_checks"]) == TRUSTED_CHECKS
    assert document["effects"].keys() == {"unknown", *(row.code for row in CATALOGUE.values() if row.is_fault)}
    assert [one["name"] for one in document["rules"]] == [one.name for one in DEFAULT_RULES]


@pytest.mark.parametrize(
    ("effect", "codes"),
    [
        ("permanent", ["xid_79", "xid_64", "gpu.row_remap.failed", "dcgm_faulty_memory", "dcgm_fallen_off_bus"]),
        ("quarantine", ["xid_63", "gpu.row_remap.pending"]),
        ("record", ["xid_13", "xid_31", "xid_43", "xid_45", "xid_94", "dcgm_persistence_mode", "monitor.silent"]),
    ],
)
def test_the_defaults_are_the_promised_ones(effect: str, codes: list[str]) -> None:
    assert {str(Policy().look_up(code).effect) for code in codes} == {effect}


def test_application_faults_are_in_no_default_rule() -> None:
    for code in ("xid_13", "xid_31", "xid_43", "xid_45", "xid_94"):
        kind = Policy().look_up(code)
        assert not any(rule.concerns(code, kind.kind, kind.effect) for rule in DEFAULT_RULES)


def test_an_empty_file_changes_nothing() -> None:
    assert parse_policy("# nothing\n") == Policy()


def test_what_a_file_says_is_taken() -> None:
    effects = 'xid_31 = "hold"\n"lab.burnin" = "quarantine"\nunknown = "record"\n'
    text = f"[thresholds]\npass_count = 3\n[effects]\n{effects}{RULE}"
    policy = parse_policy(text)
    assert policy == Policy(
        pass_count=3,
        unknown_code_effect=Effect.RECORD,
        effects=(("lab.burnin", Effect.QUARANTINE), ("xid_31", Effect.HOLD)),
        rules=(Rule("many", count=3, within_seconds=600, codes=("xid_43",)),),
    )
    assert policy.digest != Policy().digest


def test_a_rule_may_say_all_there_is_to_say() -> None:
    text = (
        '[[rules]]\nname = "all"\ncount = 2\nwithin = "28d"\nkinds = ["gpu.ecc.dbe"]\neffect = "hold"\n'
        'over = "device"\ndistinct = "nodes"\nrelease_policy = "after_passes"\nscope = "unit"\n'
        'why = "it goes with the device"\n'
    )
    (rule,) = parse_policy(text).rules
    assert (rule.over, rule.distinct, rule.within_seconds) == (Over.DEVICE, Distinct.NODES, 28 * 86_400)
    assert (rule.release_policy, rule.scope, rule.effect) == ("after_passes", "unit", Effect.HOLD)


def test_each_condition_may_have_a_patience_of_its_own() -> None:
    text = (
        '[conditions]\n"gpu.thermal" = { tolerance = "30m", clear_for = "10m", unknown = "1h" }\n'
        '"gpu.identity" = { tolerance = "2h" }\n"condition.ntp_problem" = { tolerance = "never" }\n'
    )

    assert parse_policy(text).conditions == (
        Tolerance("condition.ntp_problem", never=True),
        Tolerance("efa.identity", never=True),
        Tolerance("gpu.identity", tolerance_seconds=7200),
        Tolerance("gpu.thermal", tolerance_seconds=1800, clear_seconds=600, unknown_seconds=3600),
    )


@pytest.mark.parametrize(
    ("text", "trusted"),
    [("", ("dcgm.diag",)), ("[]", ()), ('["dcgm.diag", "lab.burnin", "lab.burnin"]', ("dcgm.diag", "lab.burnin"))],
)
def test_which_tests_are_believed_can_be_said_and_that_none_is(text: str, trusted: tuple[str, ...]) -> None:
    assert parse_policy(f"[repairs]\ntrusted_checks = {text}" if text else "").repair_trusted_checks == trusted


def test_no_rules_at_all_can_be_said() -> None:
    assert parse_policy("rules = []").rules == ()


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("pass_count = 3", ["pass_count"]),
        ("[thresholds]\npass_cuont = 3", ["thresholds.pass_cuont"]),
        (
            "[thresholds]\npass_count = 0\npass_gap_seconds = -1",
            ["thresholds.pass_count", "thresholds.pass_gap_seconds"],
        ),
        ("[thresholds]\npass_count = true", ["thresholds.pass_count"]),
        ("[thresholds]\nheat_counts = 1", ["thresholds.heat_counts"]),
        ("[thresholds]\nbreaker_zone_percent = 101", ["thresholds.breaker_zone_percent"]),
        ("[thresholds]\noutage_gap_seconds = 10", ["thresholds.outage_gap_seconds"]),
        ("thresholds = 1", ["thresholds"]),
        ('[effects]\nxid_079 = "hold"\nxid_79 = "reboot"', ["effects.xid_079", "effects.xid_79"]),
        ('[effects]\ngpu_reset = "hold"', ["effects.gpu_reset"]),
        ("[effects]\nunknown = 1", ["effects.unknown"]),
        ("[repairs]\ntrusted = []", ["repairs.trusted"]),
        ('[repairs]\ntrusted_checks = ["Burn In"]', ["repairs.trusted_checks[0]"]),
        ('[repairs]\ntrusted_checks = "dcgm.diag"', ["repairs.trusted_checks"]),
        ("[thresholds]\nrepair_enabled = 0", ["thresholds.repair_enabled"]),
        ("[thresholds]\nrepair_fleet_nodes = 0", ["thresholds.repair_fleet_nodes"]),
        ("conditions = 1", ["conditions"]),
        ('[conditions]\n"gpu.ecc" = {}', ["conditions.gpu.ecc"]),
        ('[conditions]\ngpu.ecc = "10m"', ["conditions.gpu.ecc"]),
        ('[conditions]\n"GPU ECC" = { tolerance = "10m" }', ["conditions.GPU ECC"]),
        ('[conditions]\n"gpu.ecc" = { tolerence = "10m" }', ["conditions.gpu.ecc.tolerence"]),
        ('[conditions]\n"gpu.ecc" = { tolerance = 600 }', ["conditions.gpu.ecc.tolerance"]),
        ('[conditions]\n"gpu.ecc" = { clear_for = "never" }', ["conditions.gpu.ecc.clear_for"]),
        ("rules = {}", ["rules"]),
        ("rules = [1]", ["rules[0]"]),
        ("[[rules]]", ["rules[0].name", "rules[0].count", "rules[0].within", "rules[0]"]),
        (RULE + "cuont = 1", ["rules[0].cuont"]),
        (RULE + RULE, ["rules[1].name"]),
        (RULE.replace("many", "xid_79"), ["rules[0].name"]),
        (RULE.replace("many", "Many times"), ["rules[0].name"]),
        (RULE.replace("10m", "10 minutes"), ["rules[0].within"]),
        (RULE.replace('"10m"', "600"), ["rules[0].within"]),
        (RULE.replace("10m", "400d"), ["rules[0].within"]),
        (RULE.replace("xid_43", "Xid 43"), ["rules[0].codes[0]"]),
        (RULE.replace('["xid_43"]', "[]"), ["rules[0].codes"]),
        (RULE + 'kinds = ["gpu.tired"]', ["rules[0].kinds[0]"]),
        (RULE + 'over = "rack"', ["rules[0].over"]),
        (RULE + 'over = "node"\ndistinct = "nodes"', ["rules[0].distinct"]),
        (RULE + 'over = "node"\nrelease_policy = "after_passes"', ["rules[0].release_policy"]),
        (RULE + 'over = "node"\nscope = "unit"', ["rules[0].scope"]),
        (RULE + 'distinct = "devices"', ["rules[0].distinct"]),
        (RULE + 'release_policy = "at_expiry"', ["rules[0].release_policy"]),
        (RULE + 'why = "a\\nb"', ["rules[0].why"]),
        ("[thresholds", ["the file"]),
    ],
)
def test_what_is_wrong_is_told_by_its_key(text: str, keys: list[str]) -> None:
    found = problems(text)
    assert list(found) == keys
    assert all(found.values())


def test_everything_wrong_is_told_at_once() -> None:
    text = f'[thresholds]\npass_count = 0\n[effects]\nxid_79 = "x"\n{RULE}over = "x"\n'
    assert list(problems(text)) == ["thresholds.pass_count", "effects.xid_79", "rules[0].over"]


def test_the_thresholds_that_a_file_names_are_known_without_judging_it() -> None:
    assert thresholds_in("[thresholds]\npass_count = 0\n") == {"pass_count"}
    assert thresholds_in("[thresholds") == frozenset()
    assert thresholds_in("thresholds = 3") == frozenset()


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        policy = parse_policy(text)
    except PolicyError as error:
        assert error.problems  # noqa: PT017 - either way is right
    else:
        assert policy.digest.startswith("sha256:")


@pytest.mark.parametrize("code", ["gpu_reset", "driver_loaded", "xid_430000", "sxid_430000"])
def test_a_rule_or_effect_for_what_can_be_no_fault_is_refused_by_its_name(code: str) -> None:
    rule = RULE.replace('"xid_43"', f'"xid_43", "{code}"')

    assert code in problems(rule)["rules[0].codes[1]"]
    assert code in problems(f'[effects]\n{code} = "hold"\n')[f"effects.{code}"]


def test_a_rule_for_a_code_that_nobody_knows_yet_is_taken() -> None:
    assert parse_policy(RULE.replace("xid_43", "xid_999")).rules[0].codes == ("xid_999",)
