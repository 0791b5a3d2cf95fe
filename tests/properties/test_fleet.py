# SPDX-License-Identifier: Apache-2.0
"""Do the promises hold whatever a fleet does? A random story is told to the service and to a plain model of the rules.

After every act both must give the same answer for every node, and the history must only have grown. The whole is run on
both engines. `HYPOTHESIS_PROFILE=deep` tells many more and longer stories.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.postgres import Server
from tests.properties.machine_acts import Operating
from tests.properties.machine_reports import Reporting
from tests.properties.stories import depth, on_postgresql, on_sqlite, tell


class FleetMachine(Reporting, Operating):
    """Nodes, operators and time, told to the service and to the model alike."""


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_any_story_is_told_alike_on_sqlite(sqlite_template: Path, tmp_path: Path) -> None:
    tell(FleetMachine, on_sqlite(sqlite_template, tmp_path), depth(60))


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_any_story_is_told_alike_on_postgresql(postgres: Server, postgres_template: str) -> None:
    tell(FleetMachine, on_postgresql(postgres, postgres_template), depth(15))
