# SPDX-License-Identifier: Apache-2.0
"""What does a policy file say, and what is wrong with it? Text in, a policy out, or every fault at once.

    [thresholds]            every number of `policy.Policy` by its name
    [effects]               code = "record" | "hold" | "quarantine" | "permanent"; unknown = what unknown codes do
    [[rules]]               name, codes | kinds | effect, count, within, over, distinct, release_policy, scope, why

What the file leaves out keeps its default. A file with any `[[rules]]` names all of them: the default ones are gone.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from registry.domain.failures import CATALOGUE, KINDS, Effect, is_valid_code
from registry.domain.policy import Policy
from registry.domain.rules import Distinct, Over, Rule

SECTIONS = ("thresholds", "effects", "rules")
RULES_MAX = 64
COUNT_MAX = 10_000
WITHIN_MAX_SECONDS = 366 * 86_400
WHY_MAX_LENGTH = 200
UNKNOWN = "unknown"
"""The key of the effect that codes outside the catalogue have."""

_RULE_KEYS = tuple(field.name for field in dataclasses.fields(Rule) if field.name != "within_seconds")
_KEYS = (*_RULE_KEYS[:2], "within", *_RULE_KEYS[2:])
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_WITHIN = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_NUMBERED = re.compile(r"(s?xid)_([0-9]+)")
_DIGITS_MAX = {"xid": 3, "sxid": 5}
"""https://docs.nvidia.com/deploy/xid-errors/ and the fabric manager's guide number their errors so."""
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_ENDS = ("manual", "after_passes")
_SCOPES = ("board", "unit")
_SHARE = "_percent"
_LEAST_ONE = frozenset(
    {
        *("pass_count", "after_passes_count", "pass_max_age_seconds", "report_stale_seconds", "life_sign_seconds"),
        *("outage_gap_seconds", "receipts_kept", "board_units_max", "node_active_hours", "breaker_window_seconds"),
        *("breaker_limit_min", "breaker_permanent_min"),
    }
)
"""Numbers with which nothing works when they are zero."""
_MOST = 1_000_000_000

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """What is wrong at one key of the file. `key` is the path to it, as `rules[0].count`."""

    key: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.key}: {self.remedy}"


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


class _Reader:
    """Reads values of the file and collects what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[PolicyProblem] = []

    def say(self, key: str, remedy: str) -> None:
        self.problems.append(PolicyProblem(key, remedy))

    def table(self, key: str, value: object) -> Mapping[str, Any]:
        if isinstance(value, dict):
            return value
        self.say(key, f"write it as a table, [{key}].")
        return {}

    def refuse_unknown(self, path: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
        for key in table:
            if key not in known:
                self.say(f"{path}{key}", f"there is no such key; known are {', '.join(known)}.")

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

    def within(self, key: str, value: object) -> int:
        found = _WITHIN.fullmatch(value) if isinstance(value, str) else None
        seconds = int(found[1]) * _SECONDS[found[2]] if found else 0
        if not 0 < seconds <= WITHIN_MAX_SECONDS:
            self.say(key, 'write a length of time as "90s", "10m", "3h" or "28d", at most 366d.')
        return seconds

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

    # --- single values ----------------------------------------------------------------------------------------------

    def texts(self, key: str, value: object, is_good: Callable[[str], bool], remedy: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not value:
            self.say(key, "write a list of texts that is not empty.")
            return ()
        for at, one in enumerate(value):
            if not isinstance(one, str) or not is_good(one):
                self.say(f"{key}[{at}]", f"{one!r} {remedy}")
        return tuple(dict.fromkeys(one for one in value if isinstance(one, str)))

    def number(self, key: str, value: object, least: int, most: int) -> int:
        # bool is an int to Python: `true` would become one.
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.say(key, f"write a whole number from {least} to {most}.")
        return least

    def word(self, key: str, value: object, words: type[E]) -> E | None:
        said = self.one_of(key, value, tuple(words))
        return words(said) if said is not None else None

    def one_of(self, key: str, value: object, words: tuple[str, ...]) -> str | None:
        if isinstance(value, str) and value in words:
            return value
        self.say(key, f"write one of {', '.join(words)}.")
        return None
