# SPDX-License-Identifier: Apache-2.0
"""Row 7: is every falsification of the history found when a checkpoint was kept outside, and nothing where none was?"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from registry.services.audit import Held, verify
from registry.store.database import Database, open_database
from registry.store.migrations import check_guards, migrate
from tests.clock import NOON
from tests.forgery import FORGERIES, forge
from tests.postgres import Server
from tests.scorecard.ground import folder, postgresql
from tests.scorecard.measured import Measured, Progress
from tests.services.signed import KEY, make_settings, sign, write_many

COUNTS = (60, 25)
"""Entries before the first and the second checkpoint that are kept; a few more follow in each trial."""

MORE_MAX = 30
TEMPLATE = "forged_from"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where copies of one signed history come from."""

    here: Path
    cluster: Server | None

    def prepare(self) -> Held:
        """Write the history and keep two checkpoints of it."""
        url = self.cluster.create_database(TEMPLATE) if self.cluster else self._sqlite("template")
        migrate(url)
        db, kept = open_database(url), []
        for count in COUNTS:
            write_many(db, NOON, count)
            kept.append(sign(db, NOON, make_settings(self.here)))
        db.close_all()
        return Held(tuple(kept))

    @contextmanager
    def copy(self) -> Iterator[Database]:
        """A copy of the history that may be spoilt."""
        if self.cluster:
            db = open_database(self.cluster.create_database("forged", template=TEMPLATE))
        else:
            for path in self.here.glob("template.db*"):
                shutil.copy(path, self.here / path.name.replace("template", "forged"))
            db = open_database(self._sqlite("forged"))
        yield db
        db.close_all()
        if self.cluster:
            self.cluster.drop_database("forged")
        for path in self.here.glob("forged.db*"):
            path.unlink()

    def _sqlite(self, name: str) -> str:
        return f"sqlite:///{self.here / name}.db"


@contextmanager
def stage(engine: str) -> Iterator[Stage]:
    """Make a stage on an engine."""
    with folder() as here:
        if engine == "sqlite":
            yield Stage(here, None)
            return
        with postgresql() as cluster:
            yield Stage(here, cluster)


def run(n: int, seed: int, engine: str, progress: Progress) -> Measured:
    """Falsify `n` copies, one kind after the other; each is verified before, when nobody has touched it."""
    with stage(engine) as set_up:
        held = set_up.prepare()
        return forge_all(set_up, held, n, seed, progress)


def forge_all(set_up: Stage, held: Held, n: int, seed: int, progress: Progress) -> Measured:
    """The same on a stage that is there, with what is `held`."""
    random, kinds = Random(seed), list(FORGERIES)
    covered = sum(COUNTS) + 1
    wrong: Counter[str] = Counter({"forgeries not found": 0, "false alarms": 0, "guards not put back": 0})
    seen: Counter[str] = Counter()
    for at in range(n):
        kind = kinds[(seed + at) % len(kinds)]
        with set_up.copy() as db:
            write_many(db, NOON, random.randrange(MORE_MAX))
            wrong["false alarms"] += not verify(db, held=held, key=KEY)["ok"]
            forge(db, NOON, FORGERIES[kind], covered, Random(random.random()))
            wrong["guards not put back"] += bool(check_guards(db))
            found = verify(db, held=held, key=KEY)
            wrong["forgeries not found"] += found["ok"]
            seen["clean histories"] += 1
            seen[kind] += 1
        progress(1)
    return Measured(n, wrong, seen)
