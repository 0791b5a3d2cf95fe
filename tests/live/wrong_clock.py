# SPDX-License-Identifier: Apache-2.0
"""How does an agent run whose machine has a wrong clock? As `pratique agent` does; WRONG_CLOCK names a file of seconds.

The seconds are how far the clock is ahead, behind when they are less than zero, and are read anew at each look at it.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from registry.agent.times import MachineTimes
from registry.main import main


def _now(_: MachineTimes) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=float(Path(os.environ["WRONG_CLOCK"]).read_text()))


if __name__ == "__main__":
    MachineTimes.now = _now  # type: ignore[method-assign, assignment]
    main(prog_name="pratique")
