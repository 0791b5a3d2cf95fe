# SPDX-License-Identifier: Apache-2.0
"""Row 13: do the service and the plain model of its rules ever differ, over random stories of fifty acts?"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import hypothesis
from hypothesis import HealthCheck, Phase, core

from registry.store.database import Database
from registry.store.migrations import migrate
from tests.postgres import SETTINGS
from tests.properties.machine import Close
from tests.properties.stories import Opener, on_postgresql, on_sqlite, tell
from tests.properties.test_fleet import FleetMachine
from tests.scorecard.ground import folder, postgresql
from tests.scorecard.measured import Measured, Progress

STEPS = 50
TEMPLATE = "told"


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Tell `n` stories. The first one that is told differently is printed in its shortest form."""
    told = 0

    settings = hypothesis.settings(
        max_examples=n,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    with _opener(engine) as open_db, patch.object(core, "global_force_seed", seed):

        def count_and_open() -> tuple[Database, Close]:
            nonlocal told
            told += 1
            progress(int(told <= n))
            return open_db()

        try:
            tell(FleetMachine, count_and_open, settings)
        except (AssertionError, BaseExceptionGroup):
            traceback.print_exc(file=sys.stderr)
            return Measured(n, {"stories told differently": 1}, {"stories": told})
    return Measured(n, {"stories told differently": 0}, {"stories": told})


@contextmanager
def _opener(engine: str) -> Iterator[Opener]:
    """Give what opens a copy of migrated records for each story."""
    if engine == "sqlite":
        with folder() as here:
            (here / TEMPLATE).mkdir()
            migrate(f"sqlite:///{here / TEMPLATE / 'registry.db'}")
            yield on_sqlite(here / TEMPLATE, here)
        return
    with postgresql(SETTINGS) as cluster:  # no power fails in these stories
        migrate(cluster.create_database(TEMPLATE))
        yield on_postgresql(cluster, TEMPLATE)
