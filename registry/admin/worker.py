# SPDX-License-Identifier: Apache-2.0
"""How does a server process keep slow clients from taking its threads? A thread gets a request when its head is whole.

Gunicorn's own threaded worker reads a head in a thread and waits for it for ever. Here the main loop gathers heads,
each until a deadline, and only a whole one costs a thread; what a thread then waits for has deadlines as well.
"""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from gunicorn import util
from gunicorn.http.errors import LimitRequestHeaders, LimitRequestLine
from gunicorn.workers.gthread import ThreadWorker

from registry.admin.patience import (
    ANSWER_SECONDS,
    BODY_SECONDS,
    HEAD_BYTES,
    HEAD_SECONDS,
    REST_SECONDS,
    PatientConnection,
    problem,
)
from registry.store.floor import Floor, let_go

LINGER_SECONDS = 2.0
"""How long a client may take to end its side, so that its last answer is not lost to a reset (RFC 9112, 9.6)."""

SHOWN_LENGTH = 200
"""How much of what a client sent is shown in an answer."""

PAUSE_SECONDS = 0.1
"""How long to let connections end when there are too many to take another."""

ASKERS_EACH = 2
"""Threads for those that only ask, for each thread of those that tell: some ask for much, and must not keep a probe
waiting."""

SIGN_OF_LIFE_SECONDS = 1.0
"""How often the arbiter is shown that this process is alive, and looked at in turn; it waits for thirty of these."""

_PASSING = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED})
_TOO_MANY = frozenset({errno.EMFILE, errno.ENFILE})
"""Whoever opens more connections than there are file descriptors must not end the process."""


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn ships no types
    """Gunicorn's threaded worker with an end to its patience, where one request computes at a time."""

    askers: ThreadPoolExecutor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ending_conns: deque[PatientConnection] = deque()
        self.floor = Floor()
        self._shown_at = 0.0

    def load_wsgi(self) -> None:
        """Load the application; gunicorn calls this."""
        self.wsgi = partial(_compute, self.app.wsgi())

    # --- in the main loop -------------------------------------------------------------------------------------------

    def notify(self) -> None:
        """Show that the main loop goes round, but not each time: gunicorn would write a file for every event."""
        now = time.monotonic()
        if now >= self._shown_at + SIGN_OF_LIFE_SECONDS:
            self._shown_at = now
            super().notify()

    def accept(self, listener: Any) -> None:
        """Take a connection, and wait for its head without a thread."""
        try:
            sock, client = listener.accept()
        except OSError as error:
            if error.errno in _TOO_MANY:
                self.log.warning("a connection has to wait: %s", error.strerror)
                time.sleep(PAUSE_SECONDS)
            elif error.errno not in _PASSING:
                raise
            return
        try:
            conn = PatientConnection(self.cfg, sock, client, listener.getsockname())
        except OSError as error:
            self.log.debug("a connection ended before it began: %s", error)
            sock.close()
            return
        self.nr_conns += 1
        self._await_head(conn)

    def on_client_socket_readable(self, conn: PatientConnection, client: Any) -> None:
        """Begin to gather the next request on a connection that was kept."""
        self.poller.unregister(client)
        self.keepalived_conns.remove(conn)
        self._await_head(conn)

    def on_pending_socket_readable(self, conn: PatientConnection, client: Any) -> None:
        """Gather more of a head, and hand the request to a thread when it is whole."""
        go_on = self._gather(conn)
        if go_on is not None:
            self.poller.unregister(client)
            self.pending_conns.remove(conn)
            go_on(conn)

    def get_thread_pool(self) -> ThreadPoolExecutor:
        """Make the threads of those that tell, and others for those that only ask; gunicorn calls this.

        All that tell may wait for one another and for the disk. Who asks waits for neither, and a probe that got no
        thread would have this server ended because its disk is slow.
        """
        self.askers = ThreadPoolExecutor(ASKERS_EACH * self.cfg.threads, "asker")
        return ThreadPoolExecutor(self.cfg.threads, "teller")

    def enqueue_req(self, conn: PatientConnection) -> None:
        """Give a request to a thread of its sort."""
        pool = self.askers if conn.asks else self.tpool
        done = pool.submit(self.handle, conn)
        done.add_done_callback(lambda future: self.method_queue.defer(self.finish_request, conn, future))

    def finish_request(self, conn: PatientConnection, fs: Any) -> None:
        """Keep a connection, or end it without waiting for its client: gunicorn would, and everybody with it."""
        if fs.cancelled() or fs.exception() is not None:
            super().finish_request(conn, fs)
        elif not fs.result():
            self._linger(conn)
        elif sent_ahead := conn.parser.unreader.take_buffered():
            conn.head = sent_ahead
            self._await_head(conn)
        else:
            super().finish_request(conn, fs)

    def murder_pending(self) -> None:
        """Close what has waited too long: for a head, or for its client to end."""
        super().murder_pending()
        now = time.monotonic()
        while self.ending_conns and self.ending_conns[0].timeout <= now:
            conn = self.ending_conns[0]
            self._forget(conn, conn.sock, self.ending_conns)

    def _cap_keepalive(self, deadline: float) -> None:
        """Let nobody keep a worker that is told to stop; gunicorn calls this then."""
        super()._cap_keepalive(deadline)
        for conn in (*self.pending_conns, *self.ending_conns):
            conn.timeout = min(conn.timeout, deadline)

    def _await_head(self, conn: PatientConnection) -> None:
        conn.sock.settimeout(0)
        conn.timeout = time.monotonic() + HEAD_SECONDS
        # Mostly it is here already; what TLS holds deciphered would never make the socket readable.
        go_on = self._gather(conn)
        if go_on is not None:
            go_on(conn)
            return
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.on_pending_socket_readable, conn))

    def _gather(self, conn: PatientConnection) -> Callable[[PatientConnection], None] | None:
        """Take what came of a head; returns what is to be done with the connection, None while more is to come."""
        try:
            is_whole = conn.gather()
        except OSError:
            return self._end
        if is_whole:
            return self.enqueue_req
        return self._refuse_head if len(conn.head) >= HEAD_BYTES else None

    def _refuse_head(self, conn: PatientConnection) -> None:
        too_long = LimitRequestHeaders if b"\r\n" in conn.head else LimitRequestLine
        self.handle_error(None, conn.sock, conn.client, too_long(f"the head has more than {HEAD_BYTES} bytes"))
        self._linger(conn)

    def _linger(self, conn: PatientConnection) -> None:
        """Close our side, and throw away for a moment what the client still sends."""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
            conn.sock.settimeout(0)
        except OSError:
            self._end(conn)
            return
        conn.timeout = time.monotonic() + LINGER_SECONDS
        self.ending_conns.append(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_rest, conn))

    def _on_rest(self, conn: PatientConnection, client: Any) -> None:
        if conn.throw_away():
            self._forget(conn, client, self.ending_conns)

    def _forget(self, conn: PatientConnection, client: Any, waiting: deque[PatientConnection]) -> None:
        self.poller.unregister(client)
        waiting.remove(conn)
        self._end(conn)

    def _end(self, conn: PatientConnection) -> None:
        self.nr_conns -= 1
        conn.close()

    # --- in a thread ------------------------------------------------------------------------------------------------

    def handle(self, conn: PatientConnection) -> Any:
        """Read and answer one request, which has the floor until its answer is ready."""
        with self.floor.held(asks=conn.asks):
            return super().handle(conn)

    def handle_request(self, req: Any, conn: PatientConnection) -> Any:
        """Answer one request, whose body has to be there in time."""
        conn.parser.unreader.allow(BODY_SECONDS)
        return super().handle_request(req, conn)

    def _keepalive_after(self, conn: PatientConnection, keepalive: Any) -> bool:
        """Tell whether the connection may be used again; a body that nobody read is not waited for."""
        conn.parser.unreader.allow(REST_SECONDS)
        return bool(super()._keepalive_after(conn, keepalive))

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer what is no request with a problem document; gunicorn chooses the status and writes the log."""
        theirs = _Caught()
        super().handle_error(req, theirs, addr, exc)
        status = theirs.status
        if status is None:
            return
        detail = "something went wrong here that nobody foresaw; the log has it"
        if status != 500:
            detail = f"the request cannot be read: {exc}"[:SHOWN_LENGTH]
        try:
            client.settimeout(0)
            util.write(client, problem(status, detail))
        except (OSError, ValueError) as error:
            self.log.debug("the client did not take its error: %s", error)
        else:
            client.settimeout(ANSWER_SECONDS)


def _compute(application: Callable[..., Iterable[bytes]], environ: Any, start_response: Any) -> Iterable[bytes]:
    """Ask the application. Its answer is sent without the floor: a client takes its time, and an export takes long."""
    try:
        return application(environ, start_response)
    finally:
        let_go()


class _Caught:
    """Stands in for a socket, and keeps what is written to it."""

    def __init__(self) -> None:
        self._written = b""

    @property
    def status(self) -> int | None:
        """The status of the answer that was written."""
        words = self._written.split(b" ", 2)
        return int(words[1]) if len(words) > 2 and words[1].isdigit() else None

    def gettimeout(self) -> float:
        """Say that nothing blocks."""
        return 0.0

    def sendall(self, data: bytes) -> None:
        """Keep it."""
        self._written += data
