# SPDX-License-Identifier: Apache-2.0
"""What does a policy file say, and what is wrong with it? Text in, a policy out, or every fault at once.

    [thresholds]            every number of `policy.Policy` by its name
    [effects]               code = "record" | "hold" | "quarantine" | "permanent"; unknown = what unknown codes do
    [conditions]            "name" = { tolerance = "10m" | "never", clear_for = "5m", unknown = "30m" }
    [slo]                   availability | interruptions | goodput = { target = "95%", window = "30d" }
    [repairs]               trusted_checks = ["dcgm.diag"]: tests whose failure proves hardware broken
    [[rules]]               name, codes | kinds | effect, count, within, over, distinct, release_policy, scope, why

What the file leaves out keeps its default. A file with any `[[rules]]` names all of them: the default ones are gone.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from registry.domain.failures import CATALOGUE, KINDS, Effect, is_valid_code
from registry.domain.policy import Policy
from registry.domain.policy_slo import read_objectives
from registry.domain.policy_tolerances import read_tolerances
from registry.domain.policy_values import PolicyProblem, Values
from registry.domain.rules import Distinct, Over, Rule
from registry.domain.tolerances import NAME

__all__ = ["PolicyError", "PolicyProblem", "parse_policy", "thresholds_in"]

SECTIONS = ("thresholds", "effects", "conditions", "repairs", "slo", "rules")
RULES_MAX = 64
COUNT_MAX = 10_000
WHY_MAX_LENGTH = 200
UNKNOWN = "unknown"
"""The key of the effect that codes outside the catalogue have."""

_RULE_KEYS = tuple(field.name for field in dataclasses.fields(Rule) if field.name != "within_seconds")
_KEYS = (*_RULE_KEYS[:2], "within", *_RULE_KEYS[2:])
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_NUMBERED = re.compile(r"(s?xid)_([0-9]+)")
_DIGITS_MAX = {"xid": 3, "sxid": 5}
"""https://docs.nvidia.com/deploy/xid-errors/ and the fabric manager's guide number their errors so."""
_ENDS = ("manual", "after_passes")
_SCOPES = ("board", "unit")
_SHARE = "_percent"
_LEAST_ONE = frozenset(
    {
        *("pass_count", "after_passes_count", "pass_max_age_seconds", "report_stale_seconds", "life_sign_seconds"),
        *("outage_gap_seconds", "receipts_kept", "board_units_max", "node_active_hours", "breaker_window_seconds"),
        *("breaker_limit_min", "breaker_permanent_min", "condition_flap_changes", "condition_flap_window_seconds"),
        *("repair_fleet_nodes", "repair_profile_nodes", "repair_zone_nodes", "repair_hour_nodes", "repair_attempts"),
        *("repair_lease_seconds", "detector_window_seconds"),
    }
)
"""Numbers with which nothing works when they are zero."""
_MOST = 1_000_000_000


class PolicyError(Exception):
    """The file is no policy; `problems` names each key with its remedy."""

    def __init__(self, problems: tuple[PolicyProblem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def parse_policy(text: str, base: Policy | None = None) -> Policy:
    """Read a policy. What it does not say is as in `base`, by default the policy that is built in.

    Raises PolicyError with everything that is wrong.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError((PolicyProblem("the file", f"it is not TOML: {error}."),)) from error
    reader = _Reader()
    reader.refuse_unknown("", document, SECTIONS)
    changes: dict[str, Any] = reader.thresholds(reader.table("thresholds", document.get("thresholds", {})))
    changes |= reader.effects(reader.table("effects", document.get("effects", {})))
    changes |= read_tolerances(reader, reader.table("conditions", document.get("conditions", {})))
    changes |= read_objectives(reader, reader.table("slo", document.get("slo", {})))
    changes |= reader.repairs(reader.table("repairs", document.get("repairs", {})))
    if "rules" in document:
        changes["rules"] = reader.rules(document["rules"])
    policy = base or Policy()
    if not reader.problems:
        policy = dataclasses.replace(policy, **changes)
        reader.compare(policy)
    if reader.problems:
        raise PolicyError(tuple(reader.problems))
    return policy


def thresholds_in(text: str) -> frozenset[str]:
    """Return the names of the thresholds that a file sets. Raises nothing: of a file that is wrong, none."""
    try:
        found = tomllib.loads(text).get("thresholds", {})
    except tomllib.TOMLDecodeError:
        return frozenset()
    return frozenset(found) if isinstance(found, dict) else frozenset()


class _Reader(Values):
    """Reads the sections of the file."""

    # --- [thresholds] and [effects] ---------------------------------------------------------------------------------

    def thresholds(self, table: Mapping[str, Any]) -> dict[str, int]:
        known = Policy().thresholds()
        self.refuse_unknown("thresholds.", table, known)
        return {
            name: self.threshold(name, value, is_switch=isinstance(known[name], bool))
            for name, value in table.items()
            if name in known
        }

    def threshold(self, name: str, value: object, *, is_switch: bool) -> int:
        key = f"thresholds.{name}"
        if not is_switch:
            return self.number(key, value, int(name in _LEAST_ONE), 100 if name.endswith(_SHARE) else _MOST)
        if not isinstance(value, bool):
            self.say(key, "write true or false.")
        return bool(value)

    def compare(self, policy: Policy) -> None:
        """Look at numbers that are right alone and not together."""
        if policy.outage_gap_seconds <= policy.life_sign_seconds:
            self.say(
                "thresholds.outage_gap_seconds",
                f"make it longer than life_sign_seconds, {policy.life_sign_seconds}: else the service is always away.",
            )

    def effects(self, table: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Effect] = {}
        for code, value in table.items():
            key = f"effects.{code}"
            if code != UNKNOWN and not is_valid_code(code):
                self.say(key, "that is no fault code: write it as xid_79, dcgm_row_remap_failure, gpu.missing …")
            self.be_a_fault(key, code)
            effect = self.word(key, value, Effect)
            if effect is not None:
                found[code] = effect
        unknown = {"unknown_code_effect": found.pop(UNKNOWN)} if UNKNOWN in found else {}
        return {**unknown, **({"effects": tuple(sorted(found.items()))} if found else {})}

    def repairs(self, table: Mapping[str, Any]) -> dict[str, Any]:
        self.refuse_unknown("repairs.", table, ("trusted_checks",))
        said = table.get("trusted_checks")
        if said is None:
            return {}
        if said == []:  # no test is believed, and every step is taken in its turn
            return {"repair_trusted_checks": ()}
        is_name = lambda name: NAME.fullmatch(name) is not None  # noqa: E731
        found = self.texts("repairs.trusted_checks", said, is_name, "is no name of a check: write it as dcgm.diag.")
        return {"repair_trusted_checks": found}

    # --- [[rules]] --------------------------------------------------------------------------------------------------

    def rules(self, value: object) -> tuple[Rule, ...]:
        if not isinstance(value, list) or len(value) > RULES_MAX:
            self.say("rules", f"write each as [[rules]], at most {RULES_MAX}; `rules = []` is none.")
            return ()
        found = [self.rule(f"rules[{at}]", one) for at, one in enumerate(value)]
        names = [one.name for one in found if one]
        for at, one in enumerate(found):
            if one and one.name in names[: names.index(one.name)] + names[names.index(one.name) + 1 : at + 1]:
                self.say(f"rules[{at}].name", f"{one.name} is the name of another rule: choose a new one.")
        return tuple(one for one in found if one)

    def rule(self, path: str, value: object) -> Rule | None:
        if not isinstance(value, dict):
            self.say(path, "write it as [[rules]].")
            return None
        before = len(self.problems)
        self.refuse_unknown(f"{path}.", value, _KEYS)
        for key in ("name", "count", "within"):
            if key not in value:
                self.say(f"{path}.{key}", "it is missing.")
        get: Callable[[str], tuple[str, Any]] = lambda key: (f"{path}.{key}", value[key])  # noqa: E731
        given: dict[str, Any] = {
            "name": self.name(*get("name")) if "name" in value else "",
            "count": self.number(*get("count"), 1, COUNT_MAX) if "count" in value else 1,
            "within_seconds": self.within(*get("within")) if "within" in value else 1,
        }
        readers: dict[str, Callable[[str, object], Any]] = {
            "codes": self.codes,
            "kinds": self.kinds,
            "effect": lambda key, said: self.word(key, said, Effect),
            "over": lambda key, said: self.word(key, said, Over),
            "distinct": lambda key, said: self.word(key, said, Distinct),
            "release_policy": lambda key, said: self.one_of(key, said, _ENDS),
            "scope": lambda key, said: self.one_of(key, said, _SCOPES),
            "why": self.why,
        }
        given |= {key: read(*get(key)) for key, read in readers.items() if key in value}
        if not {"codes", "kinds", "effect"} & value.keys():
            self.say(path, "say which faults it counts: codes, kinds, or the least effect.")
        if len(self.problems) > before:
            return None
        rule = Rule(**given)
        self.fit(path, rule)
        return rule

    def fit(self, path: str, rule: Rule) -> None:
        """Look at what contradicts itself within a rule."""
        if rule.over is Over.NODE and rule.release_policy != "manual":
            self.say(f"{path}.release_policy", "a hold on a node waits for a person: write manual.")
        if rule.over is Over.NODE and rule.scope is not None:
            self.say(f"{path}.scope", "a hold on a node has none: leave it out.")
        wrong = {Over.NODE: {Distinct.NODES, Distinct.SPELLS}, Over.DEVICE: {Distinct.DEVICES}}[rule.over]
        if rule.distinct in wrong:
            self.say(f"{path}.distinct", f"over one {rule.over} there is never more than one of the {rule.distinct}.")

    def name(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            self.say(key, "write a name of a-z, 0-9 and _, beginning with a letter, at most 64 characters.")
        elif value in CATALOGUE:
            self.say(key, f"holds of {value} by itself bear that name: choose another.")
        return str(value)

    def codes(self, key: str, value: object) -> tuple[str, ...]:
        found = self.texts(key, value, is_valid_code, "is no fault code: write it as xid_43, gpu.ecc.dbe …")
        for at, code in enumerate(found):
            self.be_a_fault(f"{key}[{at}]", code)
        return found

    def be_a_fault(self, key: str, code: str) -> None:
        """Refuse a code that no fault will ever have: what is said of it would be silently without effect."""
        numbered = _NUMBERED.fullmatch(code)
        if numbered is not None and len(numbered[2]) > _DIGITS_MAX[numbered[1]]:
            self.say(key, f"there is no {code}: such a number has at most {_DIGITS_MAX[numbered[1]]} digits.")
        elif code in CATALOGUE and not CATALOGUE[code].is_fault:
            self.say(key, f"{code} reports a new beginning, no fault: leave it out.")

    def kinds(self, key: str, value: object) -> tuple[str, ...]:
        return self.texts(key, value, KINDS.__contains__, f"is no kind; known are {', '.join(KINDS)}.")

    def why(self, key: str, value: object) -> str:
        if isinstance(value, str) and value.isprintable() and 0 < len(value.strip()) <= WHY_MAX_LENGTH:
            return value.strip()
        self.say(key, f"write one line of at most {WHY_MAX_LENGTH} characters.")
        return ""
