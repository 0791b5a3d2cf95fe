# SPDX-License-Identifier: Apache-2.0
"""Where is the API server, and who are we there? A pod is told by its environment and its mounted service account.

https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/#directly-accessing-the-rest-api
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from registry.controller.api_server import ApiServer

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_NAMESPACE = "pratique"

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class NoCluster(Exception):
    """It is not known where the API server is, or what it is told cannot be used. The message says what to give."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line says of the cluster; None where it says nothing."""

    api_server: str | None = None
    api_token_file: Path | None = None
    api_ca_file: Path | None = None
    namespace: str | None = None


def find_cluster(given: Given, environ: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> tuple[ApiServer, str]:
    """Return the API server and the namespace in which the lease is kept. Raises NoCluster.

    An address that was given stands alone: no token of the pod is ever sent to it by itself.
    """
    if given.api_server is not None:
        if not given.api_server.startswith(("http://", "https://")):
            raise NoCluster("The address of the API server must begin with http:// or https://.")
        if not _is_address(given.api_server):
            raise NoCluster("The address of the API server must name a host, and no user: give --api-token-file.")
        server = ApiServer(
            given.api_server, given.api_token_file, str(given.api_ca_file) if given.api_ca_file else None
        )
        return server, _namespace(given.namespace or DEFAULT_NAMESPACE)
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise NoCluster("This is no pod of a cluster: give --api-server, and --api-token-file and --api-ca-file.")
    address = f"[{host}]" if ":" in host else host
    token, authorities = given.api_token_file or account / "token", given.api_ca_file or account / "ca.crt"
    for file in (token, authorities):
        if not file.is_file():
            raise NoCluster(f"{file} is missing: let the pod mount its service account's token.")
    return ApiServer(f"https://{address}:{port}", token, str(authorities)), _namespace(given.namespace or _own(account))


def _is_address(text: str) -> bool:
    """Does it name a host and a port, and no password, which would stand in the log?"""
    try:
        parts = urlsplit(text)
        return bool(parts.hostname) and parts.port != 0 and parts.username is None and parts.password is None
    except ValueError:
        return False


def _own(account: Path) -> str:
    try:
        return (account / "namespace").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return DEFAULT_NAMESPACE


def _namespace(name: str) -> str:
    if not _NAMESPACE.fullmatch(name):
        raise NoCluster(f"{name!r} is no name of a namespace.")
    return name
