# SPDX-License-Identifier: Apache-2.0
"""Row 17: does the service count Titan's six years as they were published?"""

from __future__ import annotations

import io
import os
from collections import Counter
from pathlib import Path

from rich.console import Console

from tests.bench import titan
from tests.project import ROOT
from tests.scorecard.ground import records
from tests.scorecard.measured import Measured, NotRun, Progress

PUBLIC = Path(os.environ.get("PRATIQUE_TITAN", ROOT.parent / "shared" / "titan" / "gc_full.csv"))


def run(n: int, seed: int, engine: str, progress: Progress, path: Path = PUBLIC) -> Measured:
    """Replay the whole record `n` times. There is no chance in it, so the seed changes nothing.

    Raises NotRun where there is no such file.
    """
    if not path.exists():
        raise NotRun("gc_full.csv of https://github.com/olcf/TitanGPULife is not here; PRATIQUE_TITAN says where it is")
    differing, seen = 0, Counter[str]()
    for _ in range(n):
        with records(engine) as url:
            result = titan.run(path, url, console=Console(file=io.StringIO()))
        differing += sum(result.got.get(name) != count for name, count in result.expected.items())
        seen.update({"counts compared": len(result.expected), "messages told": result.messages})
        progress(1)
    return Measured(n, {"counts that differ": differing}, seen)
