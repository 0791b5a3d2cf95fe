# SPDX-License-Identifier: Apache-2.0
"""How does JSON stand in a column? As short text, written and read by a library that is fast at it."""

from __future__ import annotations

from typing import Any

import orjson

# Keys may be words of an enumeration; anything else that has no form of its own in JSON is a mistake of ours.
_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


def dump(value: object) -> str:
    """Write a value without blanks. Raises TypeError for what is no JSON, and for text that cannot be UTF-8."""
    return orjson.dumps(value, option=_OPTIONS).decode()


def load(text: str) -> Any:
    """Read what `dump`, or any other writer of JSON, has written."""
    return orjson.loads(text)
