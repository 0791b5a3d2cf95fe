# SPDX-License-Identifier: Apache-2.0
"""Failed jobs: what was told of each, what was known around it, the verdict in force and those before it.

A job fails once at one moment, so that job and moment are the key. `facts` is what the verdict was made of besides the
faults, which are on record for themselves: checks and silences are over when somebody asks why.
"""

from typing import Any

TABLES = (
    # `tellings` are the digests of all that was told under the key, the newest last. `signals` says how long judging
    # takes, `due` why it is waited for where that is too long for whoever writes a fault.
    """CREATE TABLE job_failure (
        id TEXT PRIMARY KEY, job_id TEXT NOT NULL, failed_at BIGINT NOT NULL, started_at BIGINT NOT NULL,
        user_name TEXT, exit_code BIGINT, signal TEXT, reporter TEXT NOT NULL, told TEXT NOT NULL,
        tellings TEXT NOT NULL, facts TEXT NOT NULL, attribution TEXT NOT NULL, cause TEXT, confidence BIGINT NOT NULL,
        retry TEXT NOT NULL, verdict TEXT NOT NULL, revision BIGINT NOT NULL, recorded_at BIGINT NOT NULL,
        judged_at BIGINT NOT NULL, signals BIGINT NOT NULL, due TEXT, UNIQUE (job_id, failed_at))""",
    "CREATE INDEX job_failure_due ON job_failure (id) WHERE due IS NOT NULL",
    # The nodes of the job, and the time in which something on them may have to do with the failure: whoever records a
    # fault finds the verdicts that it may change by one look.
    """CREATE TABLE job_failure_node (
        job_failure TEXT NOT NULL REFERENCES job_failure(id), node TEXT NOT NULL, from_at BIGINT NOT NULL,
        until_at BIGINT NOT NULL, PRIMARY KEY (job_failure, node))""",
    "CREATE INDEX job_failure_node_at ON job_failure_node (node, until_at, from_at, job_failure)",
    # The devices that the verdict in force leaves out of a retry.
    """CREATE TABLE job_failure_device (
        job_failure TEXT NOT NULL REFERENCES job_failure(id), device_id TEXT NOT NULL REFERENCES device(id),
        PRIMARY KEY (job_failure, device_id))""",
    "CREATE INDEX job_failure_device_device ON job_failure_device (device_id, job_failure)",
    """CREATE TABLE job_failure_verdict (
        job_failure TEXT NOT NULL REFERENCES job_failure(id), revision BIGINT NOT NULL, at BIGINT NOT NULL,
        because TEXT NOT NULL, verdict TEXT NOT NULL, PRIMARY KEY (job_failure, revision))""",
)

COLUMNS = ("failed_at", "started_at", "recorded_at", "judged_at", "attribution", "retry", "reporter")
WHERE_SET = ("user_name", "cause", "exit_code", "signal")
"""What the list is asked for by, of which every row has the first ones."""


def up(migrator: Any, db: Any) -> None:
    """Make the tables and their indexes. Forward only."""
    for statement in TABLES:
        db.execute_sql(statement)
    for name in COLUMNS:
        db.execute_sql(f"CREATE INDEX job_failure_by_{name} ON job_failure ({name}, id)")
    for name in WHERE_SET:
        db.execute_sql(f"CREATE INDEX job_failure_by_{name} ON job_failure ({name}, id) WHERE {name} IS NOT NULL")
