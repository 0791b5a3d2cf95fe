# SPDX-License-Identifier: Apache-2.0
"""How do times and ids stand in the database? As whole microseconds since 1970 UTC, and as UUIDs that sort by time."""

from __future__ import annotations

import itertools
import secrets
import uuid
from datetime import UTC, datetime, timedelta
from typing import overload

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_COUNTER_BITS = 26
_counter = itertools.count(secrets.randbits(_COUNTER_BITS - 1))


@overload
def to_micros(moment: datetime) -> int: ...
@overload
def to_micros(moment: None) -> None: ...
def to_micros(moment: datetime | None) -> int | None:
    """Write an aware time as microseconds since 1970 UTC, exactly; None stays None. A naive time is a TypeError."""
    return None if moment is None else (moment - EPOCH) // _MICROSECOND


@overload
def from_micros(micros: int) -> datetime: ...
@overload
def from_micros(micros: None) -> None: ...
@overload
def from_micros(micros: int | None) -> datetime | None: ...
def from_micros(micros: int | None) -> datetime | None:
    """Read microseconds since 1970 as an aware UTC time; None stays None."""
    return None if micros is None else EPOCH + timedelta(microseconds=micros)


def new_id(now: datetime) -> str:
    """Make a UUID version 7 (https://www.rfc-editor.org/rfc/rfc9562#section-5.7) of `now`.

    Ids that one process makes for the same millisecond sort in the order of their making: 26 bits count on, through
    all threads, and 48 are random.
    """
    count = next(_counter) % (1 << _COUNTER_BITS)
    milliseconds = to_micros(now) // 1000
    high = milliseconds << 16 | 7 << 12 | count >> 14
    low = 0b10 << 62 | (count & 0x3FFF) << 48 | secrets.randbits(48)
    return str(uuid.UUID(int=high << 64 | low))
