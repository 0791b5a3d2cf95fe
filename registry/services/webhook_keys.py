# SPDX-License-Identifier: Apache-2.0
"""How are messages signed, and how is what signs them kept? Enciphered with a key that follows from the pepper.

Whoever steals the database alone can neither sign nor read an address that holds a secret.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from registry.domain.webhooks import Algorithm, signing_input

SECRET_BYTES = 32
"""Of an HMAC secret: the specification wants 24 to 64. An Ed25519 private key has as many."""

SYMMETRIC, PRIVATE, PUBLIC = "whsec_", "whsk_", "whpk_"
"""What secrets begin with, and base64 after it ("Signature scheme")."""

_PURPOSE = b"pratique:webhooks:1"
_NONCE_BYTES = 12
"""What AES-GCM wants: https://csrc.nist.gov/pubs/sp/800/38/d/final, 5.2.1.1. Chosen by chance, for far fewer than the
2^32 texts that are safe under one key."""


class Unreadable(Exception):
    """What was enciphered cannot be read: it was changed, or made under another pepper."""


@dataclass(frozen=True, slots=True)
class Made:
    """A new secret, what of it is shown once, and the public key that goes with it."""

    kept: str = field(repr=False)
    shown: str | None = field(repr=False)
    public_key: str | None


class Safe:
    """Enciphers short texts, each for one place only: what is moved to another row cannot be read there."""

    def __init__(self, pepper: bytes) -> None:
        """Derive the key."""
        key = HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE).derive(pepper)
        self._cipher = AESGCM(key)

    def seal(self, text: str, place: str) -> str:
        """Encipher a text."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, text.encode(), place.encode())).decode()

    def open(self, sealed: str, place: str) -> str:
        """Read what was enciphered for a place. Raises Unreadable."""
        try:
            data = base64.b64decode(sealed, validate=True)
            return self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], place.encode()).decode()
        except (InvalidTag, ValueError) as error:
            raise Unreadable("it was changed, or enciphered under another secret key") from error


def make_secret(algorithm: Algorithm) -> Made:
    """Make a secret. Of a key pair only the public half leaves the service."""
    if algorithm is Algorithm.HMAC:
        text = SYMMETRIC + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
        return Made(text, text, None)
    private = Ed25519PrivateKey.generate()
    public = PUBLIC + base64.b64encode(private.public_key().public_bytes_raw()).decode()
    return Made(PRIVATE + base64.b64encode(private.private_bytes_raw()).decode(), None, public)


def sign(secret: str, message: str, timestamp: int, body: bytes) -> str:
    """Sign a message; the signature as it stands in the header, with what it was made by. Raises ValueError."""
    text = signing_input(message, timestamp, body)
    if secret.startswith(SYMMETRIC):
        made = hmac.new(base64.b64decode(secret.removeprefix(SYMMETRIC)), text, hashlib.sha256).digest()
        return f"v1,{base64.b64encode(made).decode()}"
    key = Ed25519PrivateKey.from_private_bytes(base64.b64decode(secret.removeprefix(PRIVATE)))
    return f"v1a,{base64.b64encode(key.sign(text)).decode()}"
