# SPDX-License-Identifier: Apache-2.0
"""What does this service do? Shown on a server of its own, by real requests, in half a minute."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from pathlib import Path

import click

from registry.admin.demo_server import GAP_SECONDS, RunningServer, ServerFailed, Stage, start_server
from registry.admin.demo_story import NODES, Story, StoryBroken
from registry.admin.ground import utc_now


@click.command(
    epilog="""\b
Examples:
  pratique demo
  pratique demo --keep
"""
)
@click.option("--keep", is_flag=True, help="Leave the server up, and print its address, process id and tokens.")
def demo(*, keep: bool) -> None:
    """See a bad GPU come back under a new name, and be refused.

    Uses a folder of its own below the folder for temporary files and touches nothing else. Ends with 0 when every
    answer was the expected one, else with 1 and the step that was not.
    """
    # Whoever ends the demo early must not leave its server behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder = Path(tempfile.mkdtemp(prefix="pratique-demo-"))
    server: RunningServer | None = None
    is_kept = False
    try:
        stage = Stage.set_up(folder)
        tokens = stage.make_tokens(nodes=NODES)
        server = start_server(stage)
        click.echo(f"A server with an empty database listens on {server.url} (SQLite in {folder}).")
        Story(server.url, tokens, GAP_SECONDS, utc_now()).play()
        prove(stage)
        if keep:
            is_kept = True
            leave(server, tokens, folder)
    except (StoryBroken, ServerFailed) as error:
        raise click.ClickException(f"the demo failed: {error}{log_of(folder)}") from error
    finally:
        if not is_kept:
            if server is not None:
                server.stop()
            shutil.rmtree(folder, ignore_errors=True)


def prove(stage: Stage) -> None:
    """Verify the chain behind the server's back. Raises StoryBroken."""
    found = stage.verify_chain()
    click.secho("\nThe same auditor has the whole history hashed again (pratique audit verify).", bold=True)
    if not found["ok"]:
        raise StoryBroken(f"the chain is broken at entry {found['bad']}: {found['reason']}")
    click.secho(f"   the chain holds: {found['entries']} entries, head {found['head_hash']}", fg="green")


def leave(server: RunningServer, tokens: dict[str, str], folder: Path) -> None:
    """Print how to reach the server that stays, and how to end it."""
    click.secho("\nThe server stays up.", bold=True)
    click.echo(f"   {server.url}")
    click.echo(f"   {server.url}/console/ shows all this: sign in with the token of operator, auditor or admin")
    click.echo(f"   process id {server.process.pid}")
    for name, token in tokens.items():
        click.echo(f"   {name:<8} {token}")
    click.echo(f"   To end it: kill {server.process.pid} && rm -r {folder}")


def log_of(folder: Path) -> str:
    """Give the end of the server's log, where there is one."""
    log = folder / "server.log"
    tail = log.read_text(errors="replace").splitlines()[-30:] if log.exists() else []
    return "".join(f"\n  {line}" for line in ["The server's log ends with:", *tail]) if tail else ""
