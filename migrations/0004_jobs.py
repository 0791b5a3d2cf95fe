# SPDX-License-Identifier: Apache-2.0
"""Jobs and what they said of themselves; where the time of jobs and of nodes went, added up by stretches of time.

Tallies have rows of two widths, five minutes and an hour: short windows read the first, long ones the second, so that
an objective over a month reads thousands of rows and not millions. They are sums, and no history: what they are made of
stands in `job_event` for some days, and of capacity nothing else is kept.
"""

from typing import Any

TABLES = (
    # One row a job. `fold` is what its messages amount to, so that the next one need not read all of them again;
    # `totals` the time by kind and cause. Messages up to `sealed_at` are
    # gone: `base` is what they amount to.
    """CREATE TABLE job (
        id TEXT PRIMARY KEY, job_id TEXT NOT NULL UNIQUE, recorded_at BIGINT NOT NULL, reporter TEXT NOT NULL,
        state TEXT NOT NULL, unit TEXT, nodes BIGINT NOT NULL, devices BIGINT NOT NULL, started_at BIGINT,
        ended_at BIGINT, outcome TEXT, last_at BIGINT NOT NULL, events BIGINT NOT NULL, totals TEXT NOT NULL,
        sealed_at BIGINT, base TEXT, fold TEXT NOT NULL)""",
    # Every message, also of progress: one that comes out of order makes those after it count anew.
    """CREATE TABLE job_event (
        job TEXT NOT NULL REFERENCES job(id), event_id TEXT NOT NULL, at BIGINT NOT NULL, recorded_at BIGINT NOT NULL,
        body TEXT NOT NULL, PRIMARY KEY (job, event_id))""",
    "CREATE INDEX job_event_at ON job_event (job, at)",
    # What the messages up to a time amounted to, every thousand or so: a late one counts anew from the mark before it.
    """CREATE TABLE job_mark (
        job TEXT NOT NULL REFERENCES job(id), at BIGINT NOT NULL, recorded_at BIGINT NOT NULL, fold TEXT NOT NULL,
        PRIMARY KEY (job, at))""",
    "CREATE INDEX job_mark_recorded ON job_mark (recorded_at, job, at)",
    """CREATE TABLE job_node (
        job TEXT NOT NULL REFERENCES job(id), node TEXT NOT NULL, PRIMARY KEY (job, node))""",
    "CREATE INDEX job_node_node ON job_node (node, job)",
    # Where the time of all jobs went: microseconds, those times nodes and times devices, and
    # how many interruptions and checkpoints began.
    """CREATE TABLE job_tally (
        width BIGINT NOT NULL, at BIGINT NOT NULL, size BIGINT NOT NULL, kind TEXT NOT NULL, cause TEXT NOT NULL,
        micros BIGINT NOT NULL, node_micros BIGINT NOT NULL, device_micros BIGINT NOT NULL,
        begun BIGINT NOT NULL, PRIMARY KEY (width, at, size, kind, cause))""",
    # Where the time of all nodes went, and for how much of it anybody looked.
    """CREATE TABLE capacity_tally (
        width BIGINT NOT NULL, at BIGINT NOT NULL, profile TEXT NOT NULL, state TEXT NOT NULL, cause TEXT NOT NULL,
        node_micros BIGINT NOT NULL, device_micros BIGINT NOT NULL,
        PRIMARY KEY (width, at, profile, state, cause))""",
    """CREATE TABLE capacity_seen (
        width BIGINT NOT NULL, at BIGINT NOT NULL, micros BIGINT NOT NULL, PRIMARY KEY (width, at))""",
    "CREATE TABLE capacity_look (id BIGINT PRIMARY KEY CHECK (id = 1), last_at BIGINT NOT NULL)",
)

COLUMNS = ("state", "recorded_at", "last_at", "devices")
WHERE_SET = ("started_at", "ended_at", "outcome")
"""What jobs are asked for by, of which every row has the first ones."""


def up(migrator: Any, db: Any) -> None:
    """Make the tables and their indexes. Forward only."""
    for statement in TABLES:
        db.execute_sql(statement)
    for name in COLUMNS:
        db.execute_sql(f"CREATE INDEX job_by_{name} ON job ({name}, id)")
    for name in WHERE_SET:
        db.execute_sql(f"CREATE INDEX job_by_{name} ON job ({name}, id) WHERE {name} IS NOT NULL")
