# SPDX-License-Identifier: Apache-2.0
"""What does this node carry, and how did its checks go? Sent to the server, as JSON or as a tool's own output."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from registry.cli.connection import Session, speaks_http
from registry.cli.exits import Exit
from registry.cli.kinds import Document, Moment, given, paired
from registry.cli.output import plain, print_decision, print_json

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
"""Where Linux names the running boot: https://www.kernel.org/doc/html/latest/admin-guide/sysctl/kernel.html#random."""

EPILOG = """\b
Examples:
  nvidia-smi -q -x | pratique report node-a --provider-id i-0abc --profile p5.48xlarge \\
      --part nvidia_smi_xml=- --check gpu.xid=pass
  pratique report node-a --provider-id i-0abc --profile p5.48xlarge --part nvidia_smi_xml=gpus.xml \\
      --part kernel_log=dmesg.txt --part efa_sysfs=efa.tar.gz --part dcgm_diag=diag.json
  pratique report node-a --provider-id i-0abc --profile p5.48xlarge --devices efas.json --covers efa \\
      --check efa.link=pass
"""


@click.command(epilog=EPILOG)
@click.argument("node")
@click.option("--boot-id", help="Id of this boot; left out, the kernel is asked.")
@click.option("--provider-id", required=True, help="Id of the instance, as the provider names it.")
@click.option("--profile", required=True, help="What sort of node this is, say p5.48xlarge.")
@click.option(
    "--part", "parts", multiple=True, metavar="NAME=FILE", help="Raw output of a tool; FILE - is standard input."
)
@click.option("--devices", type=Document(), help="JSON list of devices.")
@click.option("--checks", type=Document(), help="JSON list of check results.")
@click.option(
    "--check", "quick_checks", multiple=True, metavar="NAME=STATUS", help="One check result, say gpu.xid=pass."
)
@click.option("--covers", multiple=True, metavar="KIND", help="Kind the list of devices speaks for in full.")
@click.option("--zone", help="Where the node stands.")
@click.option("--run-id", help="Id of the round of checks, when it comes in several reports.")
@click.option("--report-id", help="Id of this report; left out, a new one is made.")
@click.option("--seq", type=click.IntRange(min=0), help="Number of this report within the boot.")
@click.option("--started-at", type=Moment(), help="When the checks began.")
@click.option("--finished-at", type=Moment(), help="When the checks ended.")
@speaks_http
def report(session: Session, node: str, parts: tuple[str, ...], **options: Any) -> None:
    """Tell the server what NODE carries and how its checks went, and print what counted and the decision.

    Ends with 0 when the report was taken, whatever the decision is: `pratique admit` tells that by its exit code.
    """
    message = message_of(options)
    contents = {name: read_part(name, place) for name, place in _once_each(parts)}
    answer = session.client.report(node, message, contents, fields=as_fields(message))
    if session.is_json:
        print_json(answer)
        return
    for warning in answer.get("warnings") or ():
        click.echo(f"warning: {plain(warning['message'])} ({plain(warning['code'])})", err=True)
    print_pass(answer["pass"])
    print_decision(answer["admission"])


def _once_each(parts: Sequence[str]) -> list[tuple[str, str]]:
    """Take `NAME=FILE` apart. Raises BadParameter for a name that stands twice: one of the two would be lost unseen."""
    pairs = [paired(part, "=", "NAME=FILE") for part in parts]
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise click.BadParameter(f"{name} is given twice: send each in a report of its own", param_hint="--part")
    return pairs


def message_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Make the report's JSON of the options."""
    quick = [
        dict(zip(("name", "status"), paired(one, "=", "NAME=STATUS"), strict=True)) for one in options["quick_checks"]
    ]
    passed_on = ("provider_id", "profile", "zone", "run_id", "started_at", "finished_at")
    message = given(**{name: options[name] for name in passed_on}, covers=list(options["covers"]))
    message["boot_id"] = options["boot_id"] or read_boot_id()
    message["report_id"] = options["report_id"] or str(uuid.uuid4())
    if options["seq"] is not None:
        message["seq"] = options["seq"]
    if options["devices"] is not None:
        message["devices"] = options["devices"]
    if options["checks"] is not None or quick:
        message["checks"] = [*(options["checks"] or ()), *quick]
    return message


def as_fields(message: Mapping[str, Any]) -> dict[str, str]:
    """Write a report's fields for a form: text as it is, everything else as JSON."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in message.items()}


def read_part(name: str, place: str) -> bytes:
    """Read a tool's output. Raises SystemExit when there is none: that says nothing about devices."""
    try:
        with click.open_file(place, "rb") as stream:
            content: bytes = stream.read()
    except OSError as error:
        raise _unreadable(f"{name}: cannot read {place}: {error.strerror}") from error
    if not content.strip():
        raise _unreadable(f"{name}: {place} is empty; did the tool run?")
    return content


def read_boot_id() -> str:
    """Ask the kernel which boot this is. Raises SystemExit."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError as error:
        raise _unreadable(f"cannot read {BOOT_ID}: {error.strerror}; give --boot-id") from error


def print_pass(outcome: Mapping[str, Any]) -> None:
    """Print whether the run counted, and if not, why."""
    if outcome["counted"]:
        click.echo(f"The run counted: {outcome['have']} of {outcome['need']} passes.")
        return
    facts: Iterable[object] = (outcome.get("because"), outcome.get("detail"))
    click.echo(f"The run did not count: {' '.join(plain(fact) for fact in facts if fact)}.")


def _unreadable(sentence: str) -> SystemExit:
    click.echo(f"pratique: {sentence}", err=True)
    return SystemExit(int(Exit.HARDWARE_UNREADABLE))
