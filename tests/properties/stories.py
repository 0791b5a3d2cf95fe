# SPDX-License-Identifier: Apache-2.0
"""How are random stories told, each to a database of its own, on either engine?"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import run_state_machine_as_test

from registry.store.database import Database, open_database
from tests.postgres import Server
from tests.properties.machine import Close

Opener: TypeAlias = Callable[[], tuple[Database, Close]]


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


def tell(machine: Callable[[Opener], Any], open_db: Opener, settings: hypothesis.settings) -> None:
    """Tell stories to machines, each with a database of its own."""
    # Hypothesis takes any maker of machines; its annotation asks for a class.
    run_state_machine_as_test(lambda: machine(open_db), settings=settings)  # type: ignore[arg-type]


def on_sqlite(template: Path, folder: Path) -> Opener:
    """Open a copy of the template below the folder."""

    def open_db() -> tuple[Database, Close]:
        copy = folder / uuid.uuid4().hex
        shutil.copytree(template, copy)
        db = open_database(f"sqlite:///{copy / 'registry.db'}")

        def close() -> None:
            db.close_all()
            shutil.rmtree(copy)

        return db, close

    return open_db


def on_postgresql(server: Server, template: str) -> Opener:
    """Open a copy of the template in the server."""

    def open_db() -> tuple[Database, Close]:
        name = f"story_{uuid.uuid4().hex}"
        db = open_database(server.create_database(name, template=template))

        def close() -> None:
            db.close_all()
            server.drop_database(name)

        return db, close

    return open_db
