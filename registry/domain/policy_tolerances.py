# SPDX-License-Identifier: Apache-2.0
"""What does a policy file say of single conditions?

[conditions]
"gpu.thermal" = { tolerance = "30m", clear_for = "10m" }
"condition.ntp_problem" = { tolerance = "never" }
"gpu.count" = { unknown = "5m" }
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry.domain.policy_values import Values
from registry.domain.tolerances import DEFAULT_TOLERANCES, NAME, Tolerance

KEYS = ("tolerance", "clear_for", "unknown")
NEVER = "never"
"""What stands for a tolerance that never ends."""


def read_tolerances(values: Values, table: Mapping[str, Any]) -> dict[str, Any]:
    """Read the section: what it says of a condition stands in place of all that is built in for it."""
    said = {name: _read(values, name, value) for name, value in table.items()}
    if not said:
        return {}
    kept = {one.name: one for one in DEFAULT_TOLERANCES}
    return {"conditions": tuple(one for _, one in sorted({**kept, **said}.items()))}


def _read(values: Values, name: str, value: object) -> Tolerance:
    key = f"conditions.{name}"
    if not NAME.fullmatch(name):
        values.say(key, "that is no name of a condition: it bears that of its check, as gpu.ecc.")
    if not isinstance(value, dict) or not value:
        values.say(key, f'write at least one of {", ".join(KEYS)}, as {{ tolerance = "10m" }}.')
        return Tolerance(name)
    values.refuse_unknown(f"{key}.", value, KEYS)
    is_never = value.get("tolerance") == NEVER
    seconds = {
        one: values.within(f"{key}.{one}", value[one])
        for one in KEYS
        if one in value and not (one == "tolerance" and is_never)
    }
    return Tolerance(
        name,
        tolerance_seconds=seconds.get("tolerance"),
        clear_seconds=seconds.get("clear_for"),
        unknown_seconds=seconds.get("unknown"),
        never=is_never,
    )
