# SPDX-License-Identifier: Apache-2.0
"""Row 17: does the service count Titan's six years as they were published?"""

from __future__ import annotations

import io
import os
from pathlib import Path

from rich.console import Console

from tests.bench import titan
from tests.project import ROOT
from tests.scorecard.ground import records
from tests.scorecard.measured import Measured, NotRun, Progress

PUBLIC = Path(os.environ.get("PRATIQUE_TITAN", ROOT.parent / "shared" / "titan" / "gc_full.csv"))


def run(n: int, seed: int, engine: str, progress: Progress, path: Path = PUBLIC) -> Measured:
    """Replay the first `n` rows; there is no chance in it, so the seed changes nothing. Raises NotRun without them."""
    if not path.exists():
        raise NotRun("gc_full.csv of https://github.com/olcf/TitanGPULife is not here; PRATIQUE_TITAN says where it is")
    with records(engine) as url:
        result = titan.run(path, url, limit=n, console=Console(file=io.StringIO()))
    progress(n)
    differing = [name for name, count in result.expected.items() if result.got.get(name) != count]
    return Measured(
        n, {"counts that differ": len(differing)}, {"counts": len(result.expected), "messages": result.messages}
    )
