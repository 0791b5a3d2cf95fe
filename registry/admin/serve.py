# SPDX-License-Identifier: Apache-2.0
"""How is the application served? By gunicorn, started here, with nothing left to a configuration file of its own.

The application is named, not imported: this room knows nothing of HTTP.
"""

from __future__ import annotations

import gc
import logging
import logging.config
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from gunicorn.app.base import BaseApplication
from gunicorn.util import import_app

from registry.admin import metrics_folder
from registry.admin.certificate import Certificate, CertificateUnusable
from registry.admin.ground import open_ready, read_settings, utc_now
from registry.admin.listening import check_free, is_address
from registry.admin.logs import ServerLog, leave_out_of_records, log_settings
from registry.admin.worker import Worker
from registry.config import ConfigError, Settings
from registry.services import safe_mode
from registry.services.outside import outside_checkpoints
from registry.store.database import Database, sqlite_gate
from registry.store.migrations import NotReady
from registry.store.serving import ServingLock

log = logging.getLogger(__name__)

APPLICATION = "api.wsgi:application"
BACKGROUND = "api.background"
"""The module whose `start(application)` sets going what a worker does between requests: the sign of life, sweeps."""

METRICS = "api.metrics"
"""The module whose `note_expiry(moment)` shows until when the certificate holds. Imported once its folder is made."""

BACKGROUND_STOP_SECONDS = 2.0
"""How long a worker that ends waits for that; another takes over later if it takes longer."""

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - not a file of ours; where workers prove that they are alive
"""A worker's sign of life must not wait for a disk: https://gunicorn.org/reference/settings/#worker_tmp_dir."""

GARBAGE_AFTER = 20_000
"""Objects made, and not ended, between two looks for cycles. A request leaves hardly any, and Python's own 700 let
each request pay for a look: https://docs.python.org/3/library/gc.html#gc.set_threshold"""

WORKERS = "WEB_CONCURRENCY"
"""Tells the application how many processes there are: https://gunicorn.org/reference/settings/#workers."""


class Server(BaseApplication):  # type: ignore[misc]  # gunicorn ships no types
    """Gunicorn with settings from a dictionary: neither its files nor GUNICORN_CMD_ARGS are read."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        super().__init__()

    def load_config(self) -> None:
        """Take over the settings; gunicorn calls this."""
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        """Import the application; gunicorn calls this."""
        return import_app(APPLICATION)

    def reload(self) -> None:
        """Read the policy file and all else that settings name again; gunicorn calls this at SIGHUP.

        What cannot be used is logged, and the processes that follow go on with what there was.
        """
        super().reload()
        module = sys.modules.pop(APPLICATION.partition(":")[0], None)
        try:
            self.callable = self.load()
            say_policy(Settings.from_env())
        except (ConfigError, NotReady) as error:
            if module is not None:
                sys.modules[module.__name__] = module
            log.error("reloading: what was set before is kept: %s", error)  # noqa: TRY400 - a sentence, no traceback


@click.command(
    epilog="""\b
Examples:
  pratique serve
  pratique serve --bind 0.0.0.0:8443 --workers 4 --tls-cert server.crt --tls-key server.key
  pratique serve --bind 127.0.0.1:0        (a free port; the line printed says which)
"""
)
@click.option("--bind", default="127.0.0.1:8080", show_default=True, metavar="HOST:PORT", help="Where to listen.")
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Processes that answer.")
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Writing requests at once in each; twice as many ask.",
)
@click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False), help="Certificate chain, PEM.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="Its key, PEM.")
def serve(bind: str, workers: int, threads: int, tls_cert: str | None, tls_key: str | None) -> None:
    """Answer HTTP. Prints one line with the address as soon as it listens; SIGTERM lets running requests end.

    Refuses to start while migrations are pending, while the guards of the history are missing, with other keys than
    those the database was made with, and while the database is restored. A new certificate and key are taken from
    their files as soon as they are there; SIGHUP reads the policy file again. Neither drops a request.
    """
    if not is_address(bind):
        raise click.BadParameter(f"{bind!r} is no HOST:PORT", param_hint="--bind")
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key go together.")
    certificate = load_certificate(tls_cert, tls_key)
    settings = read_settings()
    binds = [bind, settings.metrics_bind] if settings.metrics_bind else [bind]
    for one in binds:
        check_free(one)
    logs = log_settings(settings.log_level)
    logging.config.dictConfig(logs)
    leave_out_of_records()
    with open_ready(settings) as database:
        # Whatever is wrong is said before anything listens; the connection is closed before workers are forked.
        lock_against_restore(database)
        look_at_records(database, settings)
    say_policy(settings)
    os.environ[WORKERS] = str(workers)
    # The folder must be there, and empty, before the workers start.
    metrics_folder.make(SHARED_MEMORY if SHARED_MEMORY.is_dir() else None)
    given = {"bind": binds, "workers": workers, "threads": threads, "loglevel": settings.log_level}
    given["logconfig_dict"] = logs
    Server({**given, **fixed_settings(), **tls_settings(certificate)}).run()


def load_certificate(cert: str | None, key: str | None) -> Certificate | None:
    """Load the certificate where one is named. Raises click.UsageError with what is wrong."""
    if cert is None or key is None:
        return None
    try:
        return Certificate(cert, key, tell=lambda expires_at: import_module(METRICS).note_expiry(expires_at))
    except CertificateUnusable as error:
        raise click.UsageError(str(error)) from error


def tls_settings(certificate: Certificate | None) -> dict[str, Any]:
    """Give the settings that make gunicorn speak TLS with this certificate, or none."""
    if certificate is None:
        return {"post_worker_init": start_background}

    def start(worker: Any) -> None:
        # A new process may come long after the certificate was loaded: it looks before anybody knocks.
        certificate.context(None, None)
        certificate.tell_expiry()
        start_background(worker)

    cert, key = certificate.files
    return {"certfile": cert, "keyfile": key, "ssl_context": certificate.context, "post_worker_init": start}


def say_policy(settings: Settings) -> None:
    """Name the policy in the log by the digest that every decision carries."""
    policy = {"digest": settings.policy.digest, "file": settings.policy_file and str(settings.policy_file)}
    log.info("policy in force", extra={"fields": policy})


def lock_against_restore(database: Database) -> None:
    """Keep the database file from being put back from a backup while any process of this server lives.

    Raises NotReady while that is being done.
    """
    if database.path is not None and not ServingLock(database.path).take(is_shared=True):
        raise NotReady([f"{database.path} is being restored. Start when `pratique restore` has ended."])


def look_at_records(database: Database, settings: Settings) -> None:
    """Say in the log which SQLite this is, and whether the history is the one that was seen outside.

    Raises NotReady when the checkpoints outside cannot be read.
    """
    if database.path is not None:
        gate = sqlite_gate()
        told = "is safe with several writers" if gate.is_safe else "can corrupt a WAL database with several writers"
        say = log.info if gate.is_safe else log.warning
        say("SQLite %s %s: journal %s", gate.version, told, gate.journal)
    safe_mode.assess(database, outside_checkpoints(settings.checkpoint_file), now=utc_now())
    with database.read() as snapshot:
        for alarm in safe_mode.list_standing(snapshot):
            log.warning("%s Nobody is admitted until it is acknowledged.", safe_mode.describe(alarm))


def fixed_settings() -> dict[str, Any]:
    """Give the settings that nobody has to choose."""
    return {
        "proc_name": "pratique",
        "logger_class": ServerLog,
        # A slow client holds neither a process nor, until its request's head is whole, a thread.
        "worker_class": Worker,
        # Loaded before anything listens: what cannot work is said at once. Connections are opened after the fork.
        "preload_app": True,
        "worker_tmp_dir": str(SHARED_MEMORY) if SHARED_MEMORY.is_dir() else None,
        "timeout": 30,
        "graceful_timeout": 10,
        "keepalive": 5,
        # The socket would let whoever may open it add workers: https://gunicorn.org/reference/settings/#control_socket_disable.
        "control_socket_disable": True,
        # No proxy is believed: whoever can connect could otherwise choose the scheme we think we were called by.
        "forwarded_allow_ips": "",
        "when_ready": announce,
        "on_exit": lambda _: metrics_folder.remove(),
        "worker_exit": end_background,
    }


def announce(arbiter: Any) -> None:
    """Print where we listen; gunicorn calls this when the sockets are open."""
    scheme = "https" if arbiter.cfg.is_ssl else "http"
    for listener, what in zip(arbiter.LISTENERS, ("listening", "metrics"), strict=False):
        host, port = listener.sock.getsockname()[:2]
        click.echo(f"{what} on {scheme}://{f'[{host}]' if ':' in host else host}:{port}")


def start_background(worker: Any) -> None:
    """Set going what a worker does between requests; gunicorn calls this in each worker once it can answer."""
    gc.freeze()  # what is loaded by now stays: it need not be looked through again and again
    gc.set_threshold(GARBAGE_AFTER)
    worker.background = import_module(BACKGROUND).start(worker.app.wsgi())


def end_background(_arbiter: Any, worker: Any) -> None:
    """End it, so that another process takes over at once; gunicorn calls this in each worker that ends well."""
    if hasattr(worker, "background"):
        worker.background.stop(BACKGROUND_STOP_SECONDS)
