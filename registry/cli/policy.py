# SPDX-License-Identifier: Apache-2.0
"""By which thresholds, effects and rules are decisions made, is a policy file valid, and where does NVIDIA differ?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any

import click

from registry.cli.connection import Session, end_with, open_session, speaks_http
from registry.cli.exits import Exit
from registry.cli.output import plain, print_facts, print_json, print_table
from registry.client import ClientError
from registry.domain.failures import Effect
from registry.domain.policy import Policy
from registry.domain.policy_file import PolicyError, parse_policy
from registry.domain.vendor_words import Difference, differences_of

EPILOG = """\b
Examples:
  pratique policy show
  pratique policy show --output json | jq -r .digest
  pratique policy check policy.toml
  pratique policy diff                       (the policy of the server)
  pratique policy diff policy.toml           (a file; asks no server)
"""

OUTPUT = click.option("--output", type=click.Choice(["text", "json"]), default="text", help="For people, or programs.")


@click.group(epilog=EPILOG)
def policy() -> None:
    """By what decisions are made."""


@policy.command(epilog=EPILOG)
@speaks_http
def show(session: Session) -> None:
    """Print every threshold, the digest that decisions name them by, the rules, and what each fault code does."""
    found = session.client.get("policy")
    if session.is_json:
        print_json(found)
        return
    print_facts({name: value for name, value in found.items() if not isinstance(value, dict)})
    print_table(("CODE", "EFFECT"), sorted(found["effects"].items()))


@policy.command(epilog=EPILOG)
@click.argument("file", type=click.File("rb"))
@OUTPUT
def check(file: IO[bytes], output: str) -> None:
    """Say whether FILE (- for standard input) is a policy, and which digest it has. Asks no server.

    The digest is that of the file alone: a threshold that a server takes from a variable changes it.
    """
    found = read_policy(file, is_json=output == "json")
    if output == "json":
        print_json({"valid": True, "digest": found.digest, "problems": []})
    else:
        click.echo(f"valid\n{found.digest}")


@policy.command(epilog=EPILOG)
@click.argument("file", type=click.File("rb"), required=False)
@click.option("--url", metavar="URL", help="Address of the server.  [PRATIQUE_URL]")
@click.option(
    "--token-file", metavar="FILE", help="File that holds the token, - for standard input.  [PRATIQUE_TOKEN_FILE]"
)
@OUTPUT
def diff(file: IO[bytes] | None, url: str | None, token_file: str | None, output: str) -> None:
    """Show where the policy of FILE, or of the server, is milder or stronger than NVIDIA's own word for a code.

    That word is DCGM's severity, or the bucket of immediate action in NVIDIA's Xid catalogue.
    """
    is_json = output == "json"
    if file is not None:
        effects: Mapping[str, Any] = read_policy(file, is_json=is_json).to_json()["effects"]
    else:
        effects = _effects_of_server(url, token_file, output)
    known = {code: Effect(word) for code, word in effects.items() if word in set(Effect)}
    found = differences_of(known)
    if is_json:
        print_json({"items": [_told(one) for one in found]})
        return
    print_table(
        ("CODE", "EFFECT", "", "NVIDIA SAYS", "WHICH IS"),
        ((one.code, one.effect, "milder" if one.is_milder else "stronger", one.word, one.meant) for one in found),
    )
    milder = sum(one.is_milder for one in found)
    click.echo(f"{milder} milder and {len(found) - milder} stronger than NVIDIA's word, {len(known)} codes in all")


def read_policy(file: IO[bytes], *, is_json: bool) -> Policy:
    """Read a policy file, or tell everything that is wrong with it and end the command. Raises SystemExit."""
    try:
        return parse_policy(file.read().decode())
    except UnicodeDecodeError:
        problems = [("the file", "it is not UTF-8.")]
    except PolicyError as error:
        problems = [(one.key, one.remedy) for one in error.problems]
    if is_json:
        print_json({"valid": False, "problems": [{"key": key, "remedy": remedy} for key, remedy in problems]})
    for key, remedy in problems:
        click.echo(f"{plain(key)}: {plain(remedy)}", err=True)
    raise SystemExit(int(Exit.USAGE))


def _effects_of_server(url: str | None, token_file: str | None, output: str) -> dict[str, Any]:
    session = open_session(url, token_file, output)
    try:
        return dict(session.client.get("policy")["effects"])
    except ClientError as error:
        end_with(error, is_json=session.is_json)


def _told(one: Difference) -> dict[str, Any]:
    return {
        "code": one.code,
        "effect": str(one.effect),
        "is_milder": one.is_milder,
        "vendor_word": one.word,
        "vendor_effect": str(one.meant),
        "source": one.source,
    }
