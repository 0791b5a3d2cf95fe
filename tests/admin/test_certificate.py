# SPDX-License-Identifier: Apache-2.0
"""Does a running server show a new certificate by itself, keep the old one while the new cannot be used, and say so?"""

from __future__ import annotations

import http.client
import shutil
import socket
import ssl
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from registry.admin import certificate
from registry.admin.certificate import Certificate, CertificateUnusable, load_context, read_expiry
from registry.admin.demo_server import RunningServer, Stage, start_server

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificates")

PATIENCE_SECONDS = 20.0


class Mount:
    """A Secret as Kubernetes mounts it: files that point through `..data` at the folder of the version in force."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cert, self.key = folder / "tls.crt", folder / "tls.key"
        folder.mkdir()
        for name in ("tls.crt", "tls.key"):
            (folder / name).symlink_to(Path("..data") / name)
        self._versions = 0

    def publish(self, name: str, *, key_of: str | None = None, days: int = 1, mode: int = 0o600) -> None:
        """Make a version and put it in force in one step; `key_of` makes one whose key belongs to another."""
        self._versions += 1
        version = self.folder / f"..{self._versions}"
        version.mkdir()
        self._make(version, name, days)
        if key_of is not None:
            other = self.folder / f"..other-{self._versions}"
            other.mkdir()
            self._make(other, key_of, days)
            shutil.copy(other / "tls.key", version / "tls.key")
        (version / "tls.key").chmod(mode)
        (self.folder / "..new").symlink_to(version.name)
        (self.folder / "..new").replace(self.folder / "..data")

    def _make(self, folder: Path, name: str, days: int) -> None:
        subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", str(days)]
        out = ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
        kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        subprocess.run(["openssl", "req", "-x509", *kind, *out, *subject], check=True, capture_output=True)


@pytest.fixture
def mount(tmp_path: Path) -> Mount:
    made = Mount(tmp_path / "secret")
    made.publish("first")
    return made


def shown(address: tuple[str, int]) -> str:
    """The certificate that a server shows in a handshake."""
    return ssl.get_server_certificate(address)


class Handshaker:
    """A listener that makes each handshake with what the certificate says."""

    def __init__(self, certificate: Certificate) -> None:
        self._certificate = certificate
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                taken, _ = self._listener.accept()
            except OSError:
                return
            with taken, self._certificate.context(None, None).wrap_socket(taken, server_side=True):
                pass

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextmanager
def handshakes(mount: Mount, told: list[datetime]) -> Iterator[Handshaker]:
    made = Handshaker(Certificate(str(mount.cert), str(mount.key), tell=told.append))
    try:
        yield made
    finally:
        made.close()


def test_the_next_handshake_shows_what_a_link_was_turned_to(mount: Mount) -> None:
    told: list[datetime] = []
    with handshakes(mount, told) as server:
        assert shown(server.address) == mount.cert.read_text()
        mount.publish("second", days=7)

        assert shown(server.address) == mount.cert.read_text()

    assert told == [read_expiry(str(mount.cert))]


def test_a_pair_that_does_not_belong_together_is_not_shown(mount: Mount, caplog: pytest.LogCaptureFixture) -> None:
    with handshakes(mount, []) as server:
        first = shown(server.address)
        mount.publish("second", key_of="third")

        assert [shown(server.address) for _ in range(3)] == [first] * 3
        assert [record.message.endswith("The one before is shown on.") for record in caplog.records] == [True]

        mount.publish("fourth")
        assert shown(server.address) == mount.cert.read_text() != first


@pytest.mark.parametrize("harm", ["gone", "empty", "half"])
def test_files_that_cannot_be_read_change_nothing(mount: Mount, harm: str) -> None:
    with handshakes(mount, []) as server:
        first = shown(server.address)
        text = mount.cert.read_text()
        mount.cert.unlink()
        if harm != "gone":
            mount.cert.write_text("" if harm == "empty" else text[: len(text) // 2])

        assert shown(server.address) == first


def test_files_that_are_written_over_in_place_are_seen(mount: Mount, tmp_path: Path) -> None:
    other = Mount(tmp_path / "other")
    other.publish("other")
    with handshakes(mount, []) as server:
        shown(server.address)
        mount.cert.write_bytes(other.cert.read_bytes())
        mount.key.write_bytes(other.key.read_bytes())

        assert shown(server.address) == other.cert.read_text()


def test_one_that_has_run_out_does_not_take_the_place_of_one_that_holds(
    mount: Mount, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mount.publish("long", days=7)
    with handshakes(mount, []) as server:
        first = shown(server.address)
        later = datetime.now(UTC) + timedelta(days=3)
        monkeypatch.setattr(certificate, "utc_now", lambda: later)
        mount.publish("short", days=1)

        assert shown(server.address) == first
        assert "ran out at" in caplog.text

        later += timedelta(days=30)  # now neither holds: what was written last is shown
        mount.publish("short-too", days=1)
        assert shown(server.address) == mount.cert.read_text()


def test_a_key_with_a_password_is_said_to_be_what_is_wrong(mount: Mount) -> None:
    made = ["openssl", "ec", "-in", str(mount.key), "-aes256", "-passout", "pass:hush", "-out", str(mount.key)]
    subprocess.run(made, check=True, capture_output=True)

    with pytest.raises(CertificateUnusable, match="or has a password"):
        load_context(str(mount.cert), str(mount.key))


def test_files_that_may_be_read_only_later_are_shown_then(mount: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing changes then but the right to read them; whoever runs the tests as root may read them anyhow."""

    def load(cert: str, key: str) -> ssl.SSLContext:
        if not Path(key).stat().st_mode & stat.S_IRUSR:
            raise CertificateUnusable("The key cannot be read: Permission denied.")
        return load_context(cert, key)

    monkeypatch.setattr(certificate, "load_context", load)
    with handshakes(mount, []) as server:
        first = shown(server.address)
        mount.publish("second", mode=0)
        assert shown(server.address) == first

        mount.key.chmod(0o400)
        assert shown(server.address) == mount.cert.read_text() != first


def test_what_cannot_be_used_at_the_start_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CertificateUnusable, match="cannot be read: No such file"):
        Certificate(str(tmp_path / "a"), str(tmp_path / "b"), tell=lambda _: None)
    assert read_expiry(str(tmp_path / "a")) is None


@pytest.mark.slow
def test_a_server_changes_its_certificate_without_a_signal_and_drops_no_request(mount: Mount, tmp_path: Path) -> None:
    server = start_server(Stage.set_up(tmp_path / "data"), "--tls-cert", str(mount.cert), "--tls-key", str(mount.key))
    over = threading.Event()
    try:
        with ThreadPoolExecutor(3) as pool:
            asking = [pool.submit(ask_on_and_on, server, over, is_kept=number == 0) for number in range(3)]
            for name in ("second", "third"):
                mount.publish(name, days=9)
                wait_until_shown(server, mount.cert.read_text())
            over.set()
            counts = [one.result() for one in asking]
        scraped = scrape(server)
    finally:
        over.set()
        server.stop()

    assert min(counts) > 5, counts
    expires_at = read_expiry(str(mount.cert))
    assert expires_at is not None
    assert scraped["pratique_tls_certificate_expiry_timestamp_seconds"] == expires_at.timestamp()


def ask(connection: http.client.HTTPSConnection, path: str) -> str:
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.status == 200
    return answer.read().decode()


def connect(server: RunningServer) -> http.client.HTTPSConnection:
    """Connect without asking who made the certificate: it is ours, of a moment ago."""
    address = server.url.removeprefix("https://")
    return http.client.HTTPSConnection(address, timeout=20, context=ssl._create_unverified_context())  # noqa: S323


def ask_on_and_on(server: RunningServer, over: threading.Event, *, is_kept: bool) -> int:
    """Ask until told to stop, on one connection or each time on a new one; every answer has to be there."""
    count, connection = 0, connect(server)
    while not over.is_set():
        ask(connection, "/health/live")
        count += 1
        if not is_kept:
            connection.close()
            connection = connect(server)
    connection.close()
    return count


def wait_until_shown(server: RunningServer, expected: str) -> None:
    """Wait until a dozen handshakes in a row show a certificate: both processes then have it."""
    host, port = server.url.removeprefix("https://").split(":")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any(shown((host, int(port))) != expected for _ in range(12)):
        assert time.monotonic() < deadline


def scrape(server: RunningServer) -> dict[str, float]:
    connection = connect(server)
    lines = [line for line in ask(connection, "/metrics").splitlines() if not line.startswith("#")]
    connection.close()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
