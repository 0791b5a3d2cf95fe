# SPDX-License-Identifier: Apache-2.0
"""Was anything in the history changed, taken out or put in? Every entry is hashed again to know; heads are signed."""

from __future__ import annotations

import json
from pathlib import Path

import click

from registry.admin.ground import failing_plainly, open_any, open_ready, output_option, read_settings, utc_now
from registry.admin.progress import phases
from registry.config import Settings
from registry.domain.checkpoints import Rotation
from registry.services import audit as auditing
from registry.services import checkpoints, keys, rotation, sinks
from registry.services.audit import Held
from registry.store.database import Database
from registry.store.migrations import NotReady

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def audit() -> None:
    """Prove that nothing was taken out of the history."""


@audit.command(
    epilog="""\b
Exit codes: 0 the history is whole, 1 it is not; the first bad entry is named.

\b
Without a checkpoint that was kept elsewhere it cannot be seen that the history was rewritten from some entry on by
somebody who has the key, or that its end was cut off:
  pratique audit verify --checkpoint checkpoints-kept-elsewhere.jsonl
"""
)
@click.option("--checkpoint", type=FILE, help="A checkpoint, or a file with one a line, kept elsewhere.")
@click.option("--key", metavar="HEX", help="The public key to believe, in place of the one that signs here.")
@output_option
def verify(checkpoint: Path | None, key: str | None, output: str) -> None:
    """Recompute every hash and every column of the history, and hold it against every checkpoint of it."""
    settings = read_settings()
    with open_any(settings) as database, phases() as advance:
        held = auditing.read_held(_read(checkpoint)) if checkpoint is not None else Held()
        with database.read() as snapshot:
            total = snapshot.sequence()
        found = auditing.verify(
            database,
            held=held,
            key=key or auditing.own_key(settings),
            progress=lambda done: advance("verifying", done, total),
        )
    if held.unreadable:
        click.echo(f"{held.unreadable} lines of {checkpoint} cannot be read and were passed over.", err=True)
    if output == "json":
        click.echo(json.dumps(found, indent=2))
    elif found["ok"]:
        click.echo(f"The chain holds: {found['entries']} entries, head {found['head_sequence']} {found['head_hash']}")
        click.echo(f"{found['checkpoints']} checkpoints agree, {len(held.checkpoints)} of them kept elsewhere.")
    else:
        click.echo(f"The chain is broken at entry {found['bad']}: {found['reason']}")
    if not found["ok"]:
        raise SystemExit(1)


@audit.command()
@output_option
def checkpoint(output: str) -> None:
    """Sign the head now and print the checkpoint, as GET /v1/audit/checkpoint then answers it. Keep it elsewhere."""
    settings = read_settings()
    with open_ready(settings) as database:
        signed = checkpoints.sign(database, settings, now=utc_now())
        tell_sinks(database, settings)
    shown = signed.to_json()  # one line, so that it can be added to a file; JSON either way
    click.echo(json.dumps(shown, indent=2) if output == "json" else json.dumps(shown, separators=(",", ":")))


@audit.command()
@output_option
def key(output: str) -> None:
    """Print the public key of the checkpoints. Keep it where whoever can change this host cannot change it."""
    with failing_plainly():
        public = checkpoints.load_signer(read_settings())[0].key
    click.echo(json.dumps({"key": public}, indent=2) if output == "json" else public)


@audit.command(
    "rotate-key",
    epilog="""\b
A key in the data folder is replaced at once, and servers on this host go on with the new one by themselves.
One that is given by a setting is not ours to replace. Make another and name its file:
  openssl rand -hex 32 > signing.new
  pratique audit rotate-key --new-key-file signing.new
then give it to every server and start them anew; until then they sign nothing.
""",
)
@click.option("--new-key-file", type=FILE, help="File with the new private key, 64 hexadecimal digits.")
@output_option
def rotate_key(new_key_file: Path | None, output: str) -> None:
    """Hand the signing over to a new key. The old one signs the new one and the new one the old one, in the history."""
    settings = read_settings()
    if (settings.signing_key is None) != (new_key_file is None):
        needed = "needs" if new_key_file is None else "is not for a key in the data folder: leave out"
        raise click.UsageError(f"A signing key that is given by PRATIQUE_SIGNING_KEY {needed} --new-key-file.")
    with open_any(settings) as database:
        if rotation.finish(database, settings):
            click.echo("The new key of a rotation that was broken off is in its place now.", err=True)
        keys.check_fingerprints(database, settings, utc_now())
        if new_key_file is None:
            done = rotation.rotate_kept(database, settings, now=utc_now())
        else:
            done = _hand_over(database, settings, new_key_file)
        tell_sinks(database, settings)
    if output == "json":
        click.echo(json.dumps(done.to_json(), indent=2))
    else:
        click.echo(f"From entry {done.sequence} on {done.new_key} signs, in place of {done.old_key}.")


def tell_sinks(database: Database, settings: Settings) -> None:
    """Give the sinks what they lack; what stands in the way is said, and left to the server to try again."""
    for sentence in sinks.tend(database, settings, now=utc_now()):
        click.echo(f"warning: {sentence}", err=True)


def _hand_over(database: Database, settings: Settings, file: Path) -> Rotation:
    try:
        return rotation.rotate(database, settings, keys.read_key(file), now=utc_now())
    except ValueError as error:
        raise NotReady([f"{error}: {file} must hold another."]) from error


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise NotReady([f"{file} cannot be read: {error.strerror}."]) from error
