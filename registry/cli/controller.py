# SPDX-License-Identifier: Apache-2.0
"""How is the controller of a Kubernetes cluster started, and how does it end? The loop is in `registry.controller`."""

from __future__ import annotations

import math
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from registry.cli.connection import open_session
from registry.client import CONNECT_TIMEOUT
from registry.controller.api_server import CONNECT_SECONDS, READ_SECONDS
from registry.controller.applying import Applier
from registry.controller.asking import Asker
from registry.controller.bell import Bell
from registry.controller.cluster import Given, NoCluster, find_cluster
from registry.controller.lease import LEASE_SECONDS, Lease
from registry.controller.logs import Log
from registry.controller.loop import INTERVAL_SECONDS, PATIENCE_SECONDS, Controller
from registry.controller.meters import Meters, Window
from registry.controller.nodes import Nodes
from registry.controller.watching import Watcher
from registry.domain.node_naming import Naming

ANSWER_SECONDS = 10.0
"""How long an answer of Pratique is waited for; the next round is due soon."""

LEASE_NAME = "pratique-controller"

EPILOG = """\b
Exit codes:
  0   told to stop; the lease is given back
  1   something in it broke; it is to be started again
  2   usage, or the API server's address is not known

\b
Examples:
  pratique controller
  pratique controller --evict-on-drain --metrics-bind 0.0.0.0:9473
  kubectl proxy & pratique controller --api-server http://127.0.0.1:8001
"""


class NamingType(click.ParamType[Naming]):
    """`name`, `providerID` or `label:KEY`."""

    name = "way"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Naming:
        """Read it."""
        if isinstance(value, Naming):
            return value
        try:
            return Naming(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class AddressType(click.ParamType[tuple[str, int]]):
    """`HOST:PORT`."""

    name = "address"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Read it."""
        host, _, port = str(value).rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65_535:
            self.fail("give HOST:PORT", param, ctx)
        return host.strip("[]"), int(port)


class IntervalType(click.FloatRange):
    """Seconds between two bounds; `nan` is between none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it."""
        seconds = float(super().convert(value, param, ctx))
        return self.fail("give a number", param, ctx) if math.isnan(seconds) else seconds


@click.command(epilog=EPILOG)
@click.option("--api-server", metavar="URL", help="Address of the API server; left out, the pod's own cluster.")
@click.option("--api-token-file", type=Path, metavar="FILE", help="Token for the API server; read at each request.")
@click.option("--api-ca-file", type=Path, metavar="FILE", help="Certificates to trust for the API server.")
@click.option("--namespace", help="Where the lease is kept; left out, the pod's own.")
@click.option("--lease-name", default=LEASE_NAME, show_default=True, help="Name of the lease.")
@click.option(
    "--node-name-from",
    type=NamingType(),
    default="name",
    show_default=True,
    envvar="PRATIQUE_NODE_NAME_FROM",
    metavar="name|providerID|label:KEY",
    help="Where a Node's name at Pratique stands; of a provider id the last part.  [PRATIQUE_NODE_NAME_FROM]",
)
@click.option("--match-boot", is_flag=True, help="Admit a node only in the boot of which its kubelet tells.")
@click.option("--evict-on-drain", is_flag=True, help="On `drain` also evict the pods of the node: NoExecute.")
@click.option(
    "--interval",
    type=IntervalType(min=0.05, max=PATIENCE_SECONDS),
    default=INTERVAL_SECONDS,
    show_default=True,
    help="Seconds between two questions about a node.",
)
@click.option("--metrics-bind", type=AddressType(), metavar="HOST:PORT", help="Show /metrics and /health/live there.")
@click.option("--url", metavar="URL", help="Address of Pratique.  [PRATIQUE_URL]")
@click.option("--token-file", metavar="FILE", help="File with Pratique's token.  [PRATIQUE_TOKEN_FILE]")
@click.option(
    "--lease-seconds",
    type=click.FloatRange(min=0.1),
    default=LEASE_SECONDS,
    hidden=True,
    help="How long the lease lasts, for tests.",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=0.05),
    default=PATIENCE_SECONDS,
    hidden=True,
    help="Seconds without a decision until the condition says so, for tests.",
)
def controller(
    url: str | None, token_file: str | None, metrics_bind: tuple[str, int] | None, *, match_boot: bool, **options: Any
) -> None:
    """Mark the nodes of a Kubernetes cluster with what Pratique decides about them.

    Nodes with the label pratique.dev/managed=true keep the taint pratique.dev/unadmitted until they are admitted, and
    get it again when they no longer are. Several controllers may run; one acts. A token of role auditor is enough.
    """
    client = open_session(url, token_file, "text").client
    client.retries, client.timeout = 0, (CONNECT_TIMEOUT, ANSWER_SECONDS)
    client.answer_seconds = CONNECT_TIMEOUT + ANSWER_SECONDS
    log = Log()
    asker = Asker(client, lambda: read_token_again(url, token_file, log), by_boot=match_boot)
    made, watcher = make_controller(asker, log, **options)
    client.is_stopping = made.bell.is_stopping
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: made.bell.stop())
    if metrics_bind is not None:
        show(Window(made.meters, made.is_alive), metrics_bind, log)
    run(made, watcher)


def make_controller(
    asker: Asker,
    say: Log,
    *,
    node_name_from: Naming,
    lease_name: str,
    lease_seconds: float,
    evict_on_drain: bool,
    interval: float,
    patience: float,
    **where: Any,
) -> tuple[Controller, Watcher]:
    """Put a controller together, and what watches for it. Raises click.UsageError."""
    try:
        api, namespace = find_cluster(Given(**where), os.environ)
    except NoCluster as error:
        raise click.UsageError(str(error)) from error
    api.timeout = timeout_within(lease_seconds)
    bell, meters = Bell(), Meters()
    nodes = Nodes(bell.ring)
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    lease = Lease(api, namespace, lease_name, identity, say, seconds, now, lease_seconds, bell.ring)

    def may_act() -> bool:
        return lease.is_held() and not bell.is_stopping()

    applier = Applier(api, nodes, node_name_from, say, meters, now, seconds, may_act, evicts=evict_on_drain)
    made = Controller(
        nodes, asker, applier, lease, bell, say, meters, seconds, now, interval=interval, patience=patience
    )
    return made, Watcher(api, nodes, node_name_from, say, meters)


def run(made: Controller, watcher: Watcher) -> None:
    """Let it watch, keep up its lease and act, until told to stop; then give the lease back, when nothing acts.

    Raises SystemExit when one of the three came to an end by itself, so that a new process takes over.
    """
    beside, lease, ended = Bell(), made.lease, threading.Event()
    watcher.is_stopping, watcher.sleep = beside.is_stopping, Bell().wait

    def keep_lease() -> None:
        while not beside.is_stopping():
            lease.step()
            beside.wait(lease.period)

    def to_the_end(work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            if not beside.is_stopping():
                ended.set()
                made.bell.stop()

    keeper = threading.Thread(target=to_the_end, args=(keep_lease,), name="lease")
    keeper.start()
    threading.Thread(target=to_the_end, args=(watcher.run,), name="watch", daemon=True).start()
    made.say("started", identity=lease.identity, api_server=lease.api.url, pratique=made.asker.client.url)
    try:
        made.run()
    finally:
        beside.stop()
        keeper.join()
        lease.release()
        made.say("stopped")
    if ended.is_set():
        raise SystemExit(1)


def timeout_within(lease_seconds: float) -> tuple[float, float]:
    """Give the time limits of a request, so that it ends within what a lease that is let go still lasts."""
    share = min(1.0, lease_seconds / LEASE_SECONDS)
    return CONNECT_SECONDS * share, READ_SECONDS * share


def read_token_again(url: str | None, token_file: str | None, say: Log) -> str | None:
    """Read Pratique's token anew: it may have been replaced in its file. None where it cannot be read."""
    try:
        return open_session(url, token_file, "text").client.token
    except click.UsageError as error:
        say("the token of Pratique cannot be read again", level="warning", detail=error.message)
        return None


def show(window: Window, address: tuple[str, int], say: Log) -> None:
    """Open the window of the meters. Raises click.UsageError."""
    try:
        port = window.open(*address)
    except OSError as error:
        raise click.UsageError(f"{address[0]}:{address[1]} cannot be listened at: {error.strerror}.") from error
    say("metrics are shown", host=address[0], port=port)


def seconds() -> float:
    """Seconds that only go up, also while the machine sleeps: a lease runs out meanwhile."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def now() -> datetime:
    """The time of day."""
    return datetime.now(UTC)
