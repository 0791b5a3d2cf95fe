# SPDX-License-Identifier: Apache-2.0
"""Row 9: is anything acknowledged or admitted wrongly when opens, writes or syncs fail with EIO or ENOSPC?

Each trial lets the n-th call of a kind fail, alone, twice, or with all after it until the fault ends, with the records
open in this process only or in another too. Then the service must go on by itself, and the records hold what was
acknowledged and nothing by halves.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

from registry.store.migrations import migrate
from tests.project import ROOT
from tests.scorecard.ground import folder
from tests.scorecard.measured import Measured, NotRun, Progress
from tests.scorecard.power import DATABASE

WRONG = (
    *("wrong admissions", "acknowledged and lost", "half applied", "neither done nor 503", "not recovered by itself"),
    *("files unreadable", "chains broken"),
)


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Let the disk fail in `n` trials. Raises NotRun where there is no compiler."""
    wrong, seen = Counter(dict.fromkeys(WRONG, 0)), Counter[str]()
    with folder() as here:
        environment = {**os.environ, "LD_PRELOAD": str(_library(here))}
        template = here / "template"
        template.mkdir()
        migrate(f"sqlite:///{template / DATABASE}")
        command = [sys.executable, "-m", "tests.scorecard.failing_disk", str(template), str(n), str(seed)]
        with (
            (here / "errors").open("w+") as errors,
            subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
            ) as trials,
        ):
            assert trials.stdout is not None
            for line in trials.stdout:
                _add(json.loads(line), wrong, seen)
                progress(1)
        if trials.returncode:
            raise AssertionError((here / "errors").read_text())
    return Measured(n, wrong, seen)


def _add(told: dict[str, dict[str, int]], wrong: Counter[str], seen: Counter[str]) -> None:
    wrong.update(told["wrong"])
    seen.update(told["seen"])
    seen["trials in which something failed"] += bool(told["seen"]["503 answers"])


def _library(here: Path) -> Path:
    """Build the library that lets the disk fail."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise NotRun("there is no C compiler")
    library = here / "failing_disk.so"
    source = Path(__file__).with_name("failing_disk.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
    return library
