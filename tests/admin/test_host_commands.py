# SPDX-License-Identifier: Apache-2.0
"""Do migrate, token and audit do what they say, and say in a sentence why they cannot?"""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from registry.store.database import open_database
from tests.admin.conftest import Run


def damage(folder: Path, *statements: str) -> None:
    """Do to the database what nobody should."""
    database = open_database(f"sqlite:///{folder / 'pratique.db'}")
    with database.read() as snapshot:
        for statement in statements:
            snapshot.execute(statement)
        snapshot.execute("COMMIT")
        snapshot.execute("BEGIN")
    database.close()


def test_migrating_makes_database_and_keys_once(run: Run, folder: Path) -> None:
    first, second = run("migrate"), run("migrate")

    assert first.exit_code == second.exit_code == 0
    assert "applied 0001_the_spine" in first.stdout
    assert "applied" not in second.stdout
    names = ("pratique.db", "pratique.pepper", "pratique.signing")
    assert [(folder / name).stat().st_mode & 0o777 for name in names] == [0o600] * 3


@pytest.mark.parametrize("name", ["pratique.pepper", "pratique.signing"])
def test_a_lost_key_is_asked_for_and_not_made_anew(migrated: Run, folder: Path, name: str) -> None:
    (folder / name).unlink()

    result = migrated("migrate")

    assert result.exit_code == 1
    assert name in result.stderr
    assert "restore the file" in result.stderr
    assert not (folder / name).exists()


def test_a_database_that_is_none_is_named(migrated: Run, folder: Path) -> None:
    (folder / "pratique.db").write_bytes(b"this is no database, however long it is" * 100)

    listed, brought = migrated("token", "list"), migrated("migrate")

    assert [listed.exit_code, brought.exit_code] == [1, 1]
    assert str(folder / "pratique.db") in listed.stderr
    assert str(folder / "pratique.db") in brought.stderr


@pytest.mark.parametrize(
    ("content", "said"), [("", "cannot be used"), ("-----BEGIN CERTIFICATE-----\nAA", "cannot be used")]
)
def test_a_certificate_that_is_none_is_told_before_anything_listens(
    migrated: Run, tmp_path: Path, content: str, said: str
) -> None:
    cert = tmp_path / "server.crt"
    cert.write_text(content)

    result = migrated("serve", "--tls-cert", str(cert), "--tls-key", str(cert))

    assert result.exit_code == 2
    assert str(cert) in result.stderr
    assert said in result.stderr


def test_a_taken_port_is_one_sentence(migrated: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        bind = f"127.0.0.1:{taken.getsockname()[1]}"

        result = migrated("serve", "--bind", bind)

    assert result.exit_code == 1
    assert result.stderr == f"Error: {bind} is in use: stop whoever listens there, or choose another.\n"


def test_a_token_stands_alone_on_standard_output(migrated: Run) -> None:
    result = migrated("token", "create", "--role", "operator", "--name", "alice")

    assert result.exit_code == 0
    assert len(result.stdout.split()) == 1
    assert result.stdout.startswith("prq_operator_")
    assert result.stdout.strip() not in migrated("token", "list").stdout


def test_tokens_are_listed_and_revoked_once(migrated: Run) -> None:
    migrated("token", "create", "--role", "node", "--name", "node-a", "--node", "node-a")
    (token,) = json.loads(migrated("token", "list", "--output", "json").stdout)["items"]

    first, second = migrated("token", "revoke", token["id"]), migrated("token", "revoke", token["id"])

    assert (token["role"], token["node"]) == ("node", "node-a")
    assert [first.exit_code, second.exit_code] == [0, 1]
    assert "Error: " in second.stderr


@pytest.mark.parametrize(
    "options",
    [("--role", "node", "--name", "x"), ("--role", "operator", "--name", "x", "--node", "node-a")],
    ids=["node-without-node", "operator-with-node"],
)
def test_only_a_node_token_names_a_node(migrated: Run, options: tuple[str, ...]) -> None:
    result = migrated("token", "create", *options)

    assert result.exit_code == 2
    assert "--node" in result.stderr


JOIN = ("--role", "join", "--name", "gpu-pool")
BOUNDS = ("--pattern", "gpu-*", "--uses", "64", "--expires", "24h")


def test_a_join_token_is_made_with_its_bounds(migrated: Run) -> None:
    made = json.loads(migrated("token", "create", *JOIN, *BOUNDS, "--output", "json").stdout)

    assert made["token"].startswith("prq_join_")
    assert (made["pattern"], made["profile"], made["uses"], made["used"]) == ("gpu-*", None, 64, 0)
    assert made["created_at"] < made["expires_at"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (JOIN, "--pattern, --uses, --expires"),
        ((*JOIN, *BOUNDS[:4]), "--expires"),
        ((*JOIN, *BOUNDS[:5], "soon"), "--expires"),
        ((*JOIN, *BOUNDS[:5], "2020-01-01T00:00:00Z"), "--expires"),
        ((*JOIN, *BOUNDS[:5], "9999999d"), "--expires"),
        ((*JOIN, *BOUNDS[2:], "--pattern", "gpu/*"), "--pattern"),
        ((*JOIN, *BOUNDS, "--uses", "0"), "--uses"),
        (("--role", "auditor", "--name", "x", *BOUNDS), "--pattern"),
    ],
)
def test_bounds_that_make_no_sense_are_a_wrong_use(migrated: Run, options: tuple[str, ...], named: str) -> None:
    result = migrated("token", "create", *options)

    assert result.exit_code == 2
    assert named in result.stderr
    assert json.loads(migrated("token", "list", "--output", "json").stdout)["items"] == []


def test_the_chain_is_verified(migrated: Run) -> None:
    migrated("token", "create", "--role", "operator", "--name", "alice")

    told, document = migrated("audit", "verify"), json.loads(migrated("audit", "verify", "--output", "json").stdout)

    assert told.exit_code == 0
    assert "The chain holds: 1 entries" in told.stdout
    assert document["ok"]
    assert document["head_sequence"] == 1


def test_a_chain_without_guards_that_was_changed_is_named(migrated: Run, folder: Path) -> None:
    migrated("token", "create", "--role", "operator", "--name", "alice")
    damage(folder, "DROP TRIGGER event_no_update", "UPDATE event SET body = replace(body, 'alice', 'mallory')")

    result = migrated("audit", "verify")

    assert result.exit_code == 1
    assert "broken at entry 1" in result.stdout


@pytest.mark.parametrize("command", [("serve",), ("token", "list"), ("audit", "verify")], ids=" ".join)
def test_without_a_database_the_remedy_is_told(run: Run, folder: Path, command: tuple[str, ...]) -> None:
    result = run(*command)

    assert result.exit_code == 1
    assert "pratique migrate" in result.stderr
    assert not folder.exists()


def test_an_unguarded_history_is_not_served(migrated: Run, folder: Path) -> None:
    damage(folder, "DROP TRIGGER event_no_delete")

    result = migrated("serve", "--bind", "127.0.0.1:0")

    assert result.exit_code == 1
    assert "event_no_delete" in result.stderr


def test_other_keys_than_the_databases_are_refused(migrated: Run, folder: Path) -> None:
    (folder / "pratique.pepper").write_text("f" * 64)

    result = migrated("serve", "--bind", "127.0.0.1:0")

    assert result.exit_code == 1
    assert "pratique.pepper" in result.stderr


def test_every_wrong_setting_is_told_at_once(run: Run) -> None:
    result = run("migrate", PASS_COUNT="0", LOG_LEVEL="loud", PAS_GAP_SECONDS="3")

    assert result.exit_code == 2
    assert all(f"PRATIQUE_{name}" in result.stderr for name in ("PASS_COUNT", "LOG_LEVEL", "PAS_GAP_SECONDS"))


@pytest.mark.parametrize(
    "options",
    [("--bind", "nowhere"), ("--bind", "127.0.0.1:99999"), ("--workers", "0"), ("--tls-cert", __file__)],
    ids=" ".join,
)
def test_what_cannot_be_served_is_a_usage_error(migrated: Run, options: tuple[str, ...]) -> None:
    assert migrated("serve", *options).exit_code == 2
