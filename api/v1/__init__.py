# SPDX-License-Identifier: Apache-2.0
"""Which addresses are there under /v1? One file per plural noun."""

from __future__ import annotations

from api.v1 import (
    admissions,
    audit,
    conflicts,
    devices,
    events,
    failures,
    imports,
    job_failures,
    jobs,
    join,
    nodes,
    policy,
    profiles,
    quarantines,
    repairs,
    reports,
    service,
    slo,
    tokens,
    webhooks,
)

BLUEPRINTS = (
    reports.bp,
    nodes.bp,
    admissions.bp,
    devices.bp,
    failures.bp,
    quarantines.bp,
    imports.bp,
    conflicts.bp,
    repairs.bp,
    job_failures.bp,
    jobs.bp,
    slo.bp,
    webhooks.bp,
    events.bp,
    audit.bp,
    profiles.bp,
    policy.bp,
    tokens.bp,
    join.bp,
    service.bp,
)
"""Every blueprint, in the order of the story: a report, a decision, and what explains it."""
