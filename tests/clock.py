# SPDX-License-Identifier: Apache-2.0
"""What time is it? Whatever the test says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

NOON = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
"""When every test begins."""


class Clock:
    """A clock that stands still until it is told to move. Calling it tells the time."""

    def __init__(self, at: datetime = NOON) -> None:
        self.now = at

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> datetime:
        """Move on by so many seconds, and tell the new time."""
        self.now += timedelta(seconds=seconds)
        return self.now
