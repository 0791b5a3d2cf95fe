# SPDX-License-Identifier: Apache-2.0
"""Who signed this? Ed25519, and nothing else of cryptography: https://www.rfc-editor.org/rfc/rfc8032."""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


class Signer:
    """Signs with one private key. `key` is its public half, as hexadecimal digits."""

    def __init__(self, private: bytes) -> None:
        """Take the 32 bytes of a private key. Raises ValueError for another number of bytes."""
        self._private = Ed25519PrivateKey.from_private_bytes(private)
        self.key = self._private.public_key().public_bytes_raw().hex()

    def sign(self, text: str) -> str:
        """Sign a text, in UTF-8; the signature as hexadecimal digits."""
        return self._private.sign(text.encode()).hex()


def is_signed(key: str, signature: str, text: str) -> bool:
    """Say whether a public key made a signature of a text. What cannot be a key or a signature did not."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), text.encode())
    except (InvalidSignature, ValueError):
        return False
    return True
