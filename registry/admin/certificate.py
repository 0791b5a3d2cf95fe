# SPDX-License-Identifier: Apache-2.0
"""Which certificate does the server show? The one in its files now; while those cannot be used, the last that could.

Looked at before each handshake, which costs two looks at the file system: nobody has to send a signal. Whoever renews
certificates writes new files, or, as Kubernetes does with a mounted Secret, points a symbolic link at others
(https://kubernetes.io/docs/concepts/configuration/secret/#mounted-secrets-are-updated-automatically).
"""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from cryptography import x509

from registry.admin.ground import utc_now
from registry.domain.times import brief

log = logging.getLogger(__name__)

Look: TypeAlias = tuple[tuple[int, int, int, int], ...]
"""What tells files from those that stood in their place: device, inode, size, time of the last change. That is the one
of the inode, which moves also when somebody gives us the right to read a file."""


class CertificateUnusable(Exception):
    """A certificate and a key cannot be used; says why in a sentence."""


def load_context(cert: str, key: str) -> ssl.SSLContext:
    """Load a certificate with its key for a server. Raises CertificateUnusable."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # A key with a password would ask for it in every process; an empty one opens none.
        context.load_cert_chain(cert, key, password="")
    except ssl.SSLError as error:
        reason = (error.reason or "one of them is no PEM, or has a password").lower().replace("_", " ")
        raise CertificateUnusable(f"The certificate {cert} and the key {key} cannot be used: {reason}.") from error
    except OSError as error:
        raise CertificateUnusable(
            f"The certificate {cert} or the key {key} cannot be read: {error.strerror}."
        ) from error
    return context


def read_expiry(cert: str) -> datetime | None:
    """Return when the first of the certificates in a file runs out; None where that cannot be told."""
    try:
        chain = x509.load_pem_x509_certificates(Path(cert).read_bytes())
    except (OSError, ValueError):
        return None
    return min((one.not_valid_after_utc for one in chain), default=None)


class Certificate:
    """A certificate and its key, as one process shows them. `tell` is told when what is shown runs out."""

    def __init__(self, cert: str, key: str, *, tell: Callable[[datetime], None]) -> None:
        """Load them. Raises CertificateUnusable."""
        self.files = (cert, key)
        self._tell = tell
        self._seen = self._look()
        self._context = load_context(cert, key)
        self._expires_at = read_expiry(cert)

    def context(self, _config: Any, _usual: Any) -> ssl.SSLContext:
        """Return what a handshake is made with; gunicorn calls this before each."""
        seen = self._look()
        if seen != self._seen:
            # Remembered before they are read: if they change meanwhile, they are read again.
            self._seen = seen
            self._take()
        return self._context

    def tell_expiry(self) -> None:
        """Say when the certificate that is shown runs out, where that is known."""
        if self._expires_at is not None:
            self._tell(self._expires_at)

    def _take(self) -> None:
        try:
            self._context, self._expires_at = self._load()
        except CertificateUnusable as error:
            # Between the writing of two files they do not match: a moment later they are looked at again.
            log.error("%s The one before is shown on.", error)  # noqa: TRY400 - a sentence, no traceback
            return
        about = {"file": self.files[0], "expires_at": self._expires_at}
        log.info("another certificate is shown", extra={"fields": about})
        self.tell_expiry()

    def _load(self) -> tuple[ssl.SSLContext, datetime | None]:
        """Load what is in the files. Raises CertificateUnusable, also for what has run out before what is shown."""
        cert, key = self.files
        context, expires_at, now = load_context(cert, key), read_expiry(cert), utc_now()
        holds = self._expires_at is not None and now < self._expires_at
        if holds and expires_at is not None and expires_at <= now:
            raise CertificateUnusable(f"The certificate {cert} ran out at {brief(expires_at)}.")
        return context, expires_at

    def _look(self) -> Look:
        found = []
        for file in self.files:
            try:
                stat = os.stat(file)  # noqa: PTH116 - called before each handshake
            except OSError:
                found.append((0, 0, 0, 0))
            else:
                found.append((stat.st_dev, stat.st_ino, stat.st_size, stat.st_ctime_ns))
        return tuple(found)
