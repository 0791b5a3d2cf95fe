# SPDX-License-Identifier: Apache-2.0
"""What does a policy file promise?

[slo]
availability = { target = "95%", window = "30d" }
interruptions = { target = "6.5" }
goodput = { target = "90%" }
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from registry.domain.policy_values import Values
from registry.domain.slo import BURN_RULES, DEFAULT_OBJECTIVES, UNIT, WHOLE, Objective, ObjectiveName

KEYS = ("target", "window")
WINDOW_MIN_SECONDS = max(rule.long_seconds for rule in BURN_RULES)
"""A promise for a shorter time than its slowest alert looks back has no room for failure to speak of."""

_PERCENT = re.compile(r"([0-9]{1,2})(?:\.([0-9]{1,3}))?%")
_RATE = re.compile(r"([0-9]{1,6})(?:\.([0-9]{1,3}))?")


def read_objectives(values: Values, table: Mapping[str, Any]) -> dict[str, Any]:
    """Read the section: what it leaves out of an objective keeps its default."""
    values.refuse_unknown("slo.", table, tuple(ObjectiveName))
    if not table:
        return {}
    return {"slo": tuple(_read(values, one, table.get(one.name)) for one in DEFAULT_OBJECTIVES)}


def _read(values: Values, usual: Objective, value: object) -> Objective:
    key = f"slo.{usual.name}"
    if value is None:
        return usual
    if not isinstance(value, dict) or not value:
        values.say(key, f'write {" or ".join(KEYS)}, as {{ target = "{usual.target_text}" }}.')
        return usual
    values.refuse_unknown(f"{key}.", value, KEYS)
    found = usual
    if "target" in value:
        found = replace(found, target=_target(values, f"{key}.target", value["target"], usual))
    if "window" in value:
        found = replace(found, window_seconds=_window(values, f"{key}.window", value["window"]))
    return found


def _target(values: Values, key: str, value: object, usual: Objective) -> int:
    is_rate = usual.name is ObjectiveName.INTERRUPTIONS
    said = (_RATE if is_rate else _PERCENT).fullmatch(value) if isinstance(value, str) else None
    target = int(said[1]) * UNIT + int((said[2] or "").ljust(3, "0")) if said else 0
    if target > 0 and (is_rate or target < WHOLE):
        return target
    if is_rate:
        values.say(key, 'write how many interruptions 1,000 node-days may bring as "6.5", more than none.')
    else:
        values.say(key, 'write a share as "95%" or "99.9%", more than nothing and less than all.')
    return usual.target


def _window(values: Values, key: str, value: object) -> int:
    before = len(values.problems)
    seconds = values.within(key, value)
    if len(values.problems) == before and seconds < WINDOW_MIN_SECONDS:
        values.say(key, f'write at least "{WINDOW_MIN_SECONDS // 86_400}d".')
    return seconds
