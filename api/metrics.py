# SPDX-License-Identifier: Apache-2.0
"""What does a monitoring system see? Requests of all processes, and the fleet as the database has it at the scrape.

Several processes write their numbers into files of one folder (`PROMETHEUS_MULTIPROC_DIR`, made anew by `pratique
serve`), and whichever is asked adds them up: https://prometheus.github.io/client_python/multiprocess/.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache

from flask import Blueprint, Response, request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from api.context import database, now, policy, standing
from api.contract import says
from registry.domain.errors import NotFound, StoreUnavailable
from registry.services.gauges import Gauges, read_gauges
from registry.services.slo import Objectives, burn_rates, capacity_shares, read_objectives

PATH = "/metrics"
TEXT = {"text/plain": {"type": "string"}}

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Seconds. Reads take a millisecond, a report of a large node under slow fsync some fifty."""

REQUESTS = Counter(
    "pratique_requests",
    "Requests answered, by route, method, status and the role of whoever asked.",
    ("route", "method", "status", "role"),
    registry=None,
)
SECONDS = Histogram(
    "pratique_request_duration_seconds",
    "From the first look at a request to its status line.",
    ("route", "method"),
    buckets=BUCKETS,
    registry=None,
)

bp = Blueprint("metrics", __name__)


def note_expiry(moment: datetime) -> None:
    """Show from now on that the certificate holds until then. Without TLS nobody calls this."""
    _expiry().set(moment.timestamp())


@lru_cache(maxsize=1)
def _expiry() -> Gauge:
    """Make the gauge when it is needed: it would show 0 where there is no certificate."""
    return Gauge(
        "pratique_tls_certificate_expiry_timestamp_seconds",
        "When the certificate that is shown runs out, Unix time.",
        registry=None,
        # What any process took last counts: the others take it at their next handshake.
        multiprocess_mode="mostrecent",
    )


@bp.get(PATH)
@says({200: TEXT})
def scrape() -> Response:
    """Give the metrics in the text format of Prometheus. A store that cannot answer is `pratique_store_up 0`."""
    registry = CollectorRegistry()
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    else:
        registry.register(REQUESTS)
        registry.register(SECONDS)
    registry.register(_Fleet())
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def check_listener() -> None:
    """Where metrics have an address of their own, answer nothing else there, and them nowhere else. Raises NotFound."""
    apart = standing().settings.metrics_bind
    if apart is None:
        return
    is_apart = request.environ.get("SERVER_PORT") == apart.rpartition(":")[2]
    if is_apart != (request.path == PATH):
        raise NotFound("there is no such address here")


class _Fleet(Collector):
    """The fleet as the database has it now."""

    def collect(self) -> Iterable[Metric]:
        try:
            found = read_gauges(database(), policy=policy(), now=now())
            objectives = read_objectives(database(), policy=policy(), now=now())
        except StoreUnavailable:
            yield GaugeMetricFamily("pratique_store_up", "1 when the database answered this scrape.", value=0)
            return
        yield GaugeMetricFamily("pratique_store_up", "1 when the database answered this scrape.", value=1)
        yield from _families(found)
        yield from _of_objectives(objectives)


def _families(found: Gauges) -> Iterator[Metric]:
    devices = GaugeMetricFamily("pratique_devices", "Devices known.", labels=("kind", "state"))
    for (kind, state), count in sorted(found.devices.items()):
        devices.add_metric((kind, state), count)
    nodes = GaugeMetricFamily("pratique_nodes", "Nodes known, by what needs no decision.", labels=("state",))
    for state, count in sorted(found.nodes.items()):
        nodes.add_metric((state,), count)
    holds = GaugeMetricFamily("pratique_quarantines_open", "Holds in force.", labels=("owner", "target"))
    for (owner, target), count in sorted(found.open_holds.items()):
        holds.add_metric((owner, target), count)
    yield from (devices, nodes, holds)
    told = "Holds that the breaker withheld and that still stand."
    yield GaugeMetricFamily("pratique_quarantines_withheld", told, value=found.withheld)
    told = "1 while an alarm stands: nobody is admitted until it is acknowledged."
    yield GaugeMetricFamily("pratique_safe_mode", told, value=int(found.is_alarmed))
    yield GaugeMetricFamily("pratique_conflicts_open", "Conflicts that are not resolved.", value=found.open_conflicts)
    yield from _of_repairs(found)
    yield from _of_messages(found)
    yield GaugeMetricFamily("pratique_history_sequence", "Sequence of the newest event.", value=found.sequence)
    told = "Entries of the history that no checkpoint covers."
    yield GaugeMetricFamily("pratique_checkpoint_uncovered_events", told, value=found.uncovered)
    if found.checkpoint_age_seconds is not None:
        told = "Since the newest checkpoint was signed."
        yield GaugeMetricFamily("pratique_checkpoint_age_seconds", told, value=found.checkpoint_age_seconds)
    if found.last_sign_at is not None:
        at = found.last_sign_at.timestamp()
        yield GaugeMetricFamily(
            "pratique_last_sign_timestamp_seconds", "When the service last beat, Unix time.", value=at
        )


def _of_repairs(found: Gauges) -> Iterator[Metric]:
    orders = GaugeMetricFamily("pratique_repairs", "Repairs on record.", labels=("state", "action"))
    for (state, action), count in sorted(found.repairs.items()):
        orders.add_metric((state, action), count)
    yield orders
    told = "Nodes that repairs keep out of work, or may at any moment."
    yield GaugeMetricFamily("pratique_repairs_disturbed_nodes", told, value=found.disturbed)
    told = "1 while nothing is to be repaired, by a person's word or the policy's."
    yield GaugeMetricFamily("pratique_repairs_stopped", told, value=int(found.repairs_stopped))
    told = "Checks that are suspected: their repairs wait for a person."
    yield GaugeMetricFamily("pratique_detectors_suspected", told, value=found.suspected)


def _of_messages(found: Gauges) -> Iterator[Metric]:
    told = found.messages
    tries = CounterMetricFamily(
        "pratique_webhook_deliveries", "Messages by outcome: tries that failed, dead letters.", labels=("outcome",)
    )
    for outcome in ("delivered", "failed", "abandoned"):
        tries.add_metric((outcome,), getattr(told, outcome))
    subscriptions = GaugeMetricFamily(
        "pratique_webhook_subscriptions", "Addresses that are told of events.", labels=("state",)
    )
    for state in ("enabled", "failing", "disabled"):
        subscriptions.add_metric((state,), told.by_state.get(state, 0))
    yield from (tries, subscriptions)
    for name, words, value in (
        ("pending_deliveries", "Events that did not arrive at the first try and wait.", told.pending),
        ("dead_letters", "Events that were given up and not replayed.", told.dead),
        ("behind_events", "Events that the slowest failing or late subscription has not come to.", told.behind),
        ("oldest_pending_age_seconds", "Since the oldest waiting event.", found.oldest_message_age_seconds),
    ):
        yield GaugeMetricFamily(f"pratique_webhook_{name}", words, value=value)


def _of_objectives(found: Objectives) -> Iterator[Metric]:
    """What there is nothing to judge by is left out: no series is no good news, and no bad news either."""
    actual = GaugeMetricFamily("pratique_slo_actual", "What was reached in an objective's window.", labels=("slo",))
    target = GaugeMetricFamily("pratique_slo_target", "What is promised: a share, or a rate at most.", labels=("slo",))
    left = GaugeMetricFamily("pratique_slo_left", "Room for failure that is left, 1 is all of it.", labels=("slo",))
    bad = GaugeMetricFamily("pratique_slo_bad", "What went wrong in the window, by cause.", labels=("slo", "cause"))
    burn = GaugeMetricFamily("pratique_slo_burn_rate", "How fast that room is used up.", labels=("slo", "window"))
    for one in found.standings:
        name = str(one.objective.name)
        target.add_metric((name,), one.objective.promised)
        if one.actual is not None and one.left is not None and one.by_cause is not None:
            actual.add_metric((name,), one.actual)
            left.add_metric((name,), one.left)
            for cause, rate in one.by_cause.items():
                bad.add_metric((name, str(cause)), rate)
        for seconds, rate in burn_rates(found, one).items():
            burn.add_metric((name, f"{seconds}s"), rate)
    share = GaugeMetricFamily(
        "pratique_capacity_ratio", "GPU-time of the availability window, by where it went.", labels=("state", "cause")
    )
    for place, part in capacity_shares(found).items():
        share.add_metric((str(place.state), str(place.cause or "none")), part)
    yield from (actual, target, left, bad, burn, share)
