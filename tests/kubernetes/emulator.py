# SPDX-License-Identifier: Apache-2.0
"""What do the tests of the controller speak to? An API server that keeps Nodes and Leases as a real one does.

It knows resourceVersions, conflicts, patches, pages, watches with bookmarks and 410, dry runs, and as much of
discovery as `kubectl` asks for. What goes wrong in clusters can be made to go wrong here.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.kubernetes.objects import Change, Document, Objects, Refused
from tests.kubernetes.patches import BadPatch, json_patch, merge, strategic

BOOKMARK_SECONDS = 0.5
KINDS = {"nodes": ("Node", "v1"), "leases": ("Lease", "coordination.k8s.io/v1"), "pods": ("Pod", "v1")}
PATCHES: dict[str, Callable[[Any, Any], Any]] = {
    "application/merge-patch+json": merge,
    "application/strategic-merge-patch+json": strategic,
    "application/json-patch+json": json_patch,
}
DISCOVERY: dict[str, Document] = {
    "/version": {"major": "1", "minor": "33", "gitVersion": "v1.33.0", "platform": "linux/amd64"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [
            {
                "name": "coordination.k8s.io",
                "versions": [{"groupVersion": "coordination.k8s.io/v1", "version": "v1"}],
                "preferredVersion": {"groupVersion": "coordination.k8s.io/v1", "version": "v1"},
            }
        ],
    },
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            *(
                {
                    "name": name,
                    "singularName": "",
                    "kind": "Node",
                    "namespaced": False,
                    "shortNames": short,
                    "verbs": verbs,
                }
                for name, short, verbs in (
                    ("nodes", ["no"], ["create", "delete", "get", "list", "patch", "update", "watch"]),
                    ("nodes/status", [], ["get", "patch", "update"]),
                )
            ),
            *(
                {"name": name, "singularName": "", "kind": kind, "namespaced": True, "verbs": ["get", "list"]}
                for name, kind in (("pods", "Pod"), ("events", "Event"))
            ),
        ],
    },
    "/apis/coordination.k8s.io/v1": {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "coordination.k8s.io/v1",
        "resources": [
            {
                "name": "leases",
                "singularName": "lease",
                "namespaced": True,
                "kind": "Lease",
                "verbs": ["create", "get", "list", "update"],
            }
        ],
    },
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, in the words of RBAC."""

    verb: str
    resource: str
    namespace: str
    name: str
    agent: str
    query: dict[str, str]


class Emulator:
    """An API server on a port of its own.

    `objects.before_update` takes admission hooks, `on_request` gets every request before it is answered. `allowed`
    are the only (verb, resource) that are permitted, unless it is None. While `is_away` connections are closed without
    an answer; `is_gone_at_once` lets a watch that is too old be answered with 410 itself instead of an event.
    """

    def __init__(self) -> None:
        self.objects = Objects()
        self.asked: list[Asked] = []
        self.on_request: list[Callable[[Asked], None]] = []
        self.allowed: set[tuple[str, str]] | None = None
        self.is_away = False
        self.is_gone_at_once = False
        self.watch_seconds: float | None = None
        self.odd_lines: list[bytes] = []
        self._epoch = 0
        self._server: ThreadingHTTPServer | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Answer, on the port of the last time."""
        emulator, self.is_away = self, False

        class Handler(_Handler):
            api = emulator

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Answer no longer, not even on connections that are open."""
        assert self._server is not None
        self.is_away = True
        self.drop_watches()
        self._server.shutdown()
        self._server.server_close()

    def drop_watches(self) -> None:
        """Break every watch off."""
        with self.objects.lock:
            self._epoch += 1
            self.objects.lock.notify_all()

    def verbs(self) -> set[tuple[str, str]]:
        """What was asked, as RBAC sees it."""
        return {(one.verb, one.resource) for one in self.asked}

    def check(self, asked: Asked) -> None:
        """Raises Refused for what is not allowed."""
        self.asked.append(asked)
        for hook in self.on_request:
            hook(asked)
        if self.allowed is not None and (asked.verb, asked.resource) not in self.allowed:
            raise Refused(403, "Forbidden", f"{asked.agent} cannot {asked.verb} {asked.resource}")

    def events(self, asked: Asked, labels: dict[str, str]) -> Iterator[Document]:
        """What a watch says, until its time is over or it is broken off."""
        version, epoch = int(asked.query.get("resourceVersion") or 0), self._epoch
        until = time.monotonic() + (self.watch_seconds or float(asked.query.get("timeoutSeconds") or 60))
        quiet = time.monotonic()
        while time.monotonic() < until:
            with self.objects.lock:
                if self._epoch != epoch:
                    raise ConnectionAbortedError
                found = [] if self.is_away else list(self.objects.since(version, asked.resource))
                if not found:
                    self.objects.lock.wait(0.05)
            for change in found:
                version, quiet = change.version, time.monotonic()
                if (event := _event(change, labels)) is not None:
                    yield event
            if asked.query.get("allowWatchBookmarks") == "true" and time.monotonic() - quiet > BOOKMARK_SECONDS:
                quiet = time.monotonic()
                kind, group = KINDS[asked.resource]
                metadata = {"resourceVersion": str(max(version, self.objects.version)), "creationTimestamp": None}
                yield {"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": group, "metadata": metadata}}


def _event(change: Change, labels: dict[str, str]) -> Document | None:
    """What a watch with a selector is told of a change."""
    was, is_ = _fits(change.old, labels), _fits(change.new, labels)
    if is_:
        return {"type": "MODIFIED" if was else "ADDED", "object": change.new}
    return {"type": "DELETED", "object": change.new or change.old} if was else None


def _fits(one: Document | None, labels: dict[str, str]) -> bool:
    return one is not None and labels.items() <= (one["metadata"].get("labels") or {}).items()


class _Handler(BaseHTTPRequestHandler):
    api: Emulator
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an answer goes out in two writes, and the second must not wait for an ACK

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Say nothing."""

    def handle(self) -> None:
        """As always, but a client that goes away is nothing to tell of."""
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_PUT(self) -> None:
        self._answer("PUT")

    def do_PATCH(self) -> None:
        self._answer("PATCH")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def _answer(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.api.is_away:
            self.close_connection = True
            return
        try:
            self._work(method, json.loads(body) if body else None)
        except Refused as error:
            self._say(error.code, _status(error), retry_after=error.retry_after)
        except BadPatch as error:
            self._say(422, _status(Refused(422, "Invalid", str(error))))

    def _work(self, method: str, body: Any) -> None:
        address = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(address.query).items()}
        if address.path in DISCOVERY:
            self._say(200, DISCOVERY[address.path])
            return
        parts = address.path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = parts[1] if parts[:1] == ["namespaces"] and len(parts) > 2 else ""
        resource, name, sub = (*(parts[2:] if namespace else parts), "", "", "")[:3]
        asked = Asked(
            _verb(method, name, query), "/".join(filter(None, (resource, sub))), namespace, name, self._agent, query
        )
        self.api.check(asked)
        if resource not in KINDS:
            self._say(200 if not name else 404, {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []})
        elif asked.verb == "watch":
            self._watch(asked, _labels(query))
        elif asked.verb == "list":
            self._say(200, self._list(asked, _labels(query)))
        else:
            self._say(201 if method == "POST" else 200, self._one(method, asked, resource, sub, body))

    def _one(self, method: str, asked: Asked, resource: str, sub: str, body: Any) -> Document:
        objects, where = self.api.objects, asked.namespace
        about = {"user": asked.agent, "dry_run": "dryRun" in asked.query}
        if method == "GET":
            return objects.get(resource, asked.name, where)
        if method == "POST":
            return objects.create(resource, body, where, **about)
        if method == "DELETE":
            return objects.delete(resource, asked.name, where, **about)
        if method == "PUT":
            return objects.update(resource, asked.name, lambda _: body, where, subresource=sub, **about)
        kind = self.headers["Content-Type"].partition(";")[0]
        if kind not in PATCHES:
            raise Refused(415, "UnsupportedMediaType", kind)
        patch = PATCHES[kind]
        options: dict[str, Any] = {**about, "subresource": sub, "is_patch": True}
        return objects.update(resource, asked.name, lambda old: patch(old, body), where, **options)

    def _list(self, asked: Asked, labels: dict[str, str]) -> Document:
        kind, group = KINDS[asked.resource]
        with self.api.objects.lock:
            found = [one for one in self.api.objects.all(asked.resource, asked.namespace) if _fits(one, labels)]
            about = {"resourceVersion": str(self.api.objects.version)}
        wanted = dict(part.split("=") for part in asked.query.get("fieldSelector", "").split(",") if part)
        if "metadata.name" in wanted:
            found = [one for one in found if one["metadata"]["name"] == wanted["metadata.name"]]
        start, limit = int(asked.query.get("continue") or 0), int(asked.query.get("limit") or 0)
        if limit and len(found) > start + limit:
            about["continue"] = str(start + limit)
        items = found[start : start + limit] if limit else found
        return {"kind": f"{kind}List", "apiVersion": group, "metadata": about, "items": items}

    def _watch(self, asked: Asked, labels: dict[str, str]) -> None:
        if self.api.is_gone_at_once:
            self.api.objects.since(int(asked.query.get("resourceVersion") or 0), asked.resource)
        self.send_response(200)
        self.send_header("Content-Type", "application/json;stream=watch")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while self.api.odd_lines:
                self._chunk(self.api.odd_lines.pop(0) + b"\n")
            for event in self.api.events(asked, labels):
                self._chunk(json.dumps(event).encode() + b"\n")
        except Refused as error:
            self._chunk(json.dumps({"type": "ERROR", "object": _status(error)}).encode() + b"\n")
        self._chunk(b"")

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))

    def _say(self, code: int, document: Document, *, retry_after: int | None = None) -> None:
        content = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.end_headers()
        self.wfile.write(content)

    @property
    def _agent(self) -> str:
        return (self.headers.get("User-Agent") or "").partition("/")[0].partition(" ")[0]


def _verb(method: str, name: str, query: dict[str, str]) -> str:
    if method == "GET":
        return "watch" if query.get("watch") in {"1", "true"} else "get" if name else "list"
    return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]


def _labels(query: dict[str, str]) -> dict[str, str]:
    return dict(part.split("=", 1) for part in query.get("labelSelector", "").split(",") if part)


def _status(error: Refused) -> Document:
    about = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**about, "message": error.message, "reason": error.reason, "code": error.code}
