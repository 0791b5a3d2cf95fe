# SPDX-License-Identifier: Apache-2.0
"""What does the command `pratique` know? One table of commands; each is loaded when it is asked for.

So a node, which has none of the server's libraries, starts fast and can still read about every command.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import version
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

# name: (module and object, one line of help). The lines stand here so that the list of commands loads none of them.
OVER_HTTP = {
    "admit": ("registry.cli.admit:admit", "May this node take work? The exit code says it, and why not."),
    "join": ("registry.cli.join:join", "Trade a join token for this node's own."),
    "agent": ("registry.cli.agent:agent", "Watch over this node: look, tell, and act as told, every 30 seconds."),
    "controller": ("registry.cli.controller:controller", "Mark the nodes of a Kubernetes cluster as decided."),
    "report": ("registry.cli.report:report", "Tell the server what a node carries and how its checks went."),
    "device": ("registry.cli.device:device", "What is known of a GPU or EFA, wherever it has been."),
    "node": ("registry.cli.node:node", "What is known of a node, and the ways out."),
    "quarantine": ("registry.cli.quarantine:quarantine", "Hold hardware or nodes, and release them."),
    "failure": ("registry.cli.failure:failure", "Put a fault on record; withdraw one that was none."),
    "repair": ("registry.cli.repair:repair", "What should be repaired, by whom, and within which bounds."),
    "job": ("registry.cli.job:job", "What jobs say of themselves, and how much of their time was worth it."),
    "job-failure": ("registry.cli.job_failure:job_failure", "Who is to blame for a failed job? Ask before a retry."),
    "slo": ("registry.cli.slo:slo", "Is what the policy promises kept, and if not, by whose doing?"),
    "conflict": ("registry.cli.conflict:conflict", "Contradictions about which device is which."),
    "profile": ("registry.cli.profile:profile", "What a node of a type should carry."),
    "policy": ("registry.cli.policy:policy", "Which thresholds are in force."),
    "admission": ("registry.cli.admission:admission", "What would you say to these nodes and serials?"),
    "service": ("registry.cli.service:service", "Take note of what a restore lost, and admit nodes again."),
    "webhook": ("registry.cli.webhook:webhook", "Who is told of events as they happen."),
    "events": ("registry.cli.events:events", "The whole history."),
}
ON_THE_SERVER = {
    "serve": ("registry.admin.serve:serve", "Answer HTTP."),
    "migrate": ("registry.admin.migrate:migrate", "Make the database and the keys, or bring them up to date."),
    "token": ("registry.admin.token:token", "Hand out credentials and take them back."),
    "audit": ("registry.admin.audit:audit", "Prove that nothing was taken out of the history."),
    "backup": ("registry.admin.backup:backup", "Keep the records elsewhere, while the server runs."),
    "restore": ("registry.admin.restore:restore", "Put the records of a backup into an empty database."),
    "doctor": ("registry.admin.doctor:doctor", "Is this host fit to serve, and if not, why?"),
    "demo": ("registry.admin.demo:demo", "See a bad GPU come back under a new name, and be refused."),
}


class CommandTable(click.Group):
    """A group whose commands stand in a table and are imported one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click gives it
        """Name every command, those of the server's host last."""
        return [*OVER_HTTP, *ON_THE_SERVER]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click gives it
        """Load a command; one whose libraries are not installed becomes one that says so."""
        place, _ = OVER_HTTP.get(cmd_name) or ON_THE_SERVER.get(cmd_name) or (None, None)
        if place is None:
            return None
        module, _, name = place.partition(":")
        try:
            command = getattr(import_module(module), name)
        except ModuleNotFoundError as error:
            if cmd_name not in ON_THE_SERVER or (error.name or "").startswith("registry"):
                raise
            return _without_server(cmd_name, error.name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{place} is not a command")
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command from the table alone: the shell asks at every press of the key."""
        lines = {name: line for table in (OVER_HTTP, ON_THE_SERVER) for name, (_, line) in table.items()}
        found = [CompletionItem(name, help=line) for name, line in lines.items() if name.startswith(incomplete)]
        return found or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click gives it
        """Write the list from the table alone."""
        for title, table in (("Commands", OVER_HTTP), ("Commands on the server's host", ON_THE_SERVER)):
            with formatter.section(title):
                formatter.write_dl([(name, line) for name, (_, line) in table.items()])


def _without_server(name: str, library: str | None) -> click.Command:
    """Stand in for a command of the server's host where its libraries are missing."""

    def explain(_rest: tuple[str, ...]) -> NoReturn:
        raise click.ClickException(
            f"`pratique {name}` needs the server's libraries ({library} is missing): pip install 'pratique[server]'"
        )

    rest = click.Argument(["_rest"], nargs=-1, type=click.UNPROCESSED)
    settings = {"ignore_unknown_options": True}
    return click.Command(name, callback=explain, params=[rest], context_settings=settings, add_help_option=False)


@click.group(cls=CommandTable, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(version("pratique"), prog_name="pratique")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Pratique remembers physical GPUs and EFA adapters, and decides whether the node that carries them may take work.

    Commands that speak HTTP take the server's address from --url or PRATIQUE_URL, and the token from --token-file,
    PRATIQUE_TOKEN_FILE or PRATIQUE_TOKEN.
    """
    if os.environ.get("NO_COLOR"):
        ctx.color = False


if __name__ == "__main__":
    main(prog_name="pratique")
