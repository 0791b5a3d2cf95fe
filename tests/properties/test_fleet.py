# SPDX-License-Identifier: Apache-2.0
"""Do the promises hold whatever a fleet does? A random story is told to the service and to a plain model of the rules.

After every act both must give the same answer for every node, and the history must only have grown. The whole is run on
both engines. `HYPOTHESIS_PROFILE=deep` tells many more and longer stories.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import run_state_machine_as_test

from registry.store.database import Database, open_database
from tests.postgres import Server
from tests.properties.machine import Close
from tests.properties.machine_acts import Operating
from tests.properties.machine_reports import Reporting


class FleetMachine(Reporting, Operating):
    """Nodes, operators and time, told to the service and to the model alike."""


def depth(examples: int) -> hypothesis.settings:
    """So many stories in the suite; the profile `deep` decides for itself."""
    common = {
        "suppress_health_check": list(HealthCheck),
        "deadline": None,
        "phases": [one for one in Phase if one is not Phase.explain],
    }
    if hypothesis.settings.get_current_profile_name() == "deep":
        return hypothesis.settings(**common)  # type: ignore[arg-type]
    return hypothesis.settings(max_examples=examples, stateful_step_count=30, **common)  # type: ignore[arg-type]


def tell(open_db: Callable[[], tuple[Database, Close]], settings: hypothesis.settings) -> None:
    """Tell stories, each to a database of its own."""
    # Hypothesis takes any maker of machines; its annotation asks for a class.
    run_state_machine_as_test(lambda: FleetMachine(open_db), settings=settings)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_any_story_is_told_alike_on_sqlite(sqlite_template: Path, tmp_path: Path) -> None:
    def open_db() -> tuple[Database, Close]:
        folder = tmp_path / uuid.uuid4().hex
        shutil.copytree(sqlite_template, folder)
        db = open_database(f"sqlite:///{folder / 'registry.db'}")

        def close() -> None:
            db.close_all()
            shutil.rmtree(folder)

        return db, close

    tell(open_db, depth(60))


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_any_story_is_told_alike_on_postgresql(postgres: Server, postgres_template: str) -> None:
    def open_db() -> tuple[Database, Close]:
        name = f"story_{uuid.uuid4().hex}"
        db = open_database(postgres.create_database(name, template=postgres_template))

        def close() -> None:
            db.close_all()
            postgres.drop_database(name)

        return db, close

    tell(open_db, depth(15))
