# SPDX-License-Identifier: Apache-2.0
"""Can an administrator tell an address of events with commands alone, and keep its secret to a file?"""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Pratique

ADDRESS = "https://hooks.example/in/secret-path?key=hush"


def make(pratique: Pratique, *more: str) -> str:
    """Make a subscription and return its id."""
    made = pratique("webhook", "create", "--to-file", "-", *more, who="admin", given=ADDRESS + "\n")
    assert made.exit_code == 0, made.output
    return str(pratique.json("webhook", "list")["items"][0]["id"])


def test_the_secret_alone_is_on_standard_output_and_the_address_is_not_told(pratique: Pratique) -> None:
    made = pratique("webhook", "create", "--to", ADDRESS, "--type", "quarantine.*", who="admin")

    assert made.stdout.startswith("whsec_")
    assert len(made.stdout.splitlines()) == 1
    assert "https://hooks.example/…" in made.stderr
    assert "hush" not in made.output
    assert "hush" not in pratique("webhook", "list").output


def test_of_a_key_pair_the_public_half_is_printed(pratique: Pratique) -> None:
    made = pratique("webhook", "create", "--to", ADDRESS, "--algorithm", "ed25519", who="admin")

    assert made.stdout.startswith("whpk_")


def test_the_whole_life_of_a_subscription(pratique: Pratique) -> None:
    one = make(pratique, "--description", "on-call", "--cause", "power")
    shown = pratique.json("webhook", "show", one)
    assert (shown["description"], shown["causes"], shown["types"]) == ("on-call", ["power"], [])

    assert pratique("webhook", "rotate", one, "--keep", "1h", who="admin").stdout.startswith("whsec_")
    assert len(pratique.json("webhook", "show", one)["keys"]) == 2
    assert pratique.json("webhook", "test", one, who="admin")["state"] == "pending"
    assert [row["event"] for row in pratique.json("webhook", "deliveries", one)["items"]] == [None]
    assert pratique.json("webhook", "change", one, "--off", who="admin")["enabled"] is False
    assert pratique.json("webhook", "change", one, "--on", "--skip", who="admin")["enabled"] is True
    nothing = pratique("webhook", "replay", one, "--all", who="admin")
    assert (nothing.exit_code, "no such dead letter" in nothing.output) == (1, True)
    assert pratique("webhook", "remove", one, who="admin").exit_code == 2
    assert pratique("webhook", "remove", one, "--yes", who="admin").exit_code == 0
    assert pratique.json("webhook", "list")["items"] == []


def test_what_cannot_be_meant_is_a_usage_error(pratique: Pratique, tmp_path: Path) -> None:
    (tmp_path / "url").write_text(ADDRESS)

    for arguments in (
        ("create",),
        ("create", "--to", ADDRESS, "--to-file", str(tmp_path / "url")),
        ("replay", "x"),
        ("replay", "x", "--all", "--delivery", "y"),
    ):
        assert pratique("webhook", *arguments, who="admin").exit_code == 2
    unknown = pratique("webhook", "create", "--to", ADDRESS, "--type", "node.sneezed", who="admin")
    assert (unknown.exit_code, "node.sneezed" in unknown.output) == (1, True)
