# SPDX-License-Identifier: Apache-2.0
"""Are keys made once, kept from other eyes, and never exchanged unnoticed?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest

from registry.config import Settings
from registry.services.keys import (
    check_fingerprints,
    ensure_keys,
    is_bound,
    list_fingerprints,
    load_pepper,
    load_signing_key,
)
from registry.store.database import Database
from registry.store.migrations import NotReady, list_faults

GIVEN = {"secret_key": "0123456789abcdef" * 2, "signing_key": "ab" * 32}


def make_settings(folder: Path, url: str = "sqlite:////nowhere.db", **given: str) -> Settings:
    return Settings(database_url=url, data_dir=folder, **given)  # type: ignore[arg-type]


def test_keys_are_made_once_for_their_owner_only(tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "data")

    made = ensure_keys(settings)

    assert [path.name for path in made] == ["pratique.pepper", "pratique.signing"]
    assert [path.stat().st_mode & 0o777 for path in made] == [0o600, 0o600]
    before = load_pepper(settings), load_signing_key(settings)
    assert ensure_keys(settings) == []
    assert before == (load_pepper(settings), load_signing_key(settings))
    assert (len(before[0]), len(before[1])) == (64, 32)
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["pratique.pepper", "pratique.signing"]


def test_a_database_that_is_bound_to_its_keys_gets_no_other(db: Database, now: datetime, tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "data")
    assert not is_bound(db)
    ensure_keys(settings)
    check_fingerprints(db, settings, now)
    lost = tmp_path / "data" / "pratique.pepper"
    lost.unlink()

    assert is_bound(db)
    with pytest.raises(NotReady, match=r"pratique\.pepper.*restore the file"):
        ensure_keys(settings, is_bound=True)
    assert not lost.exists()


def test_makers_at_once_agree(tmp_path: Path) -> None:
    settings = make_settings(tmp_path)

    def make(_: int) -> bytes:
        ensure_keys(settings)
        return load_pepper(settings)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(make, range(8)))) == 1


def test_given_keys_make_no_files(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, **GIVEN)

    assert ensure_keys(settings) == []
    assert load_pepper(settings) == GIVEN["secret_key"].encode()
    assert load_signing_key(settings) == bytes.fromhex(GIVEN["signing_key"])
    assert list(tmp_path.iterdir()) == []


def test_with_postgresql_keys_must_be_given(tmp_path: Path) -> None:
    settings = make_settings(tmp_path, "postgresql://db/x")

    with pytest.raises(NotReady, match="PRATIQUE_SECRET_KEY_FILE"):
        ensure_keys(settings)
    with pytest.raises(NotReady, match="PostgreSQL"):
        load_pepper(settings)


def test_a_key_that_is_missing_empty_or_no_key_is_told(tmp_path: Path) -> None:
    settings = make_settings(tmp_path)
    with pytest.raises(NotReady, match="pratique migrate"):
        load_pepper(settings)
    (tmp_path / "pratique.pepper").write_text("\n")
    (tmp_path / "pratique.signing").write_text("abc")

    with pytest.raises(NotReady, match="empty"):
        load_pepper(settings)
    with pytest.raises(NotReady, match="32 bytes"):
        load_signing_key(settings)


def test_a_database_is_bound_to_its_keys(db: Database, tmp_path: Path, now: datetime) -> None:
    settings = make_settings(tmp_path, **GIVEN)
    check_fingerprints(db, settings, now)
    check_fingerprints(db, settings, now)

    other = make_settings(tmp_path, secret_key="x" * 32, signing_key=GIVEN["signing_key"])
    with pytest.raises(NotReady, match="PRATIQUE_SECRET_KEY") as caught:
        check_fingerprints(db, other, now)
    assert len(caught.value.sentences) == 1
    assert list_faults(db, list_fingerprints(settings)) == []
    with db.read() as snapshot:
        stored = repr(snapshot.all("SELECT * FROM key_fingerprint"))
    assert GIVEN["secret_key"] not in stored
