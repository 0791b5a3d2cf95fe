# SPDX-License-Identifier: Apache-2.0
"""What do the tests of checkpoints stand on? Settings with a signing key, and a history with checkpoints in it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from registry.config import Settings
from registry.domain.checkpoints import Checkpoint
from registry.services import checkpoints
from registry.services.signing import Signer
from registry.store.database import Database
from tests.store.drafts import make_draft

PRIVATE = "ab" * 32
KEY = Signer(bytes.fromhex(PRIVATE)).key


def make_settings(folder: Path, **changes: Any) -> Settings:
    """Settings as a server has them."""
    given = {"secret_key": "x" * 32, "signing_key": PRIVATE, "checkpoint_file": folder / "checkpoints.jsonl"}
    return Settings(**{"database_url": "sqlite:////nowhere", "data_dir": folder, **given, **changes})


def write_many(db: Database, now: datetime, count: int) -> None:
    """Write events in one transaction, about two nodes in turn and one that is in each."""
    with db.write(now) as transaction:
        for number in range(count):
            transaction.record(make_draft(f"node-{number % 2}", "node-all", number=number))


def sign(db: Database, now: datetime, settings: Settings) -> Checkpoint:
    """Sign the head."""
    return checkpoints.sign(db, settings, now=now)
