# SPDX-License-Identifier: Apache-2.0
"""Does the Ed25519 of the verifier that stands alone take what the library signs, and nothing else?"""

from __future__ import annotations

import importlib.util
from functools import cache
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.services.signing import Signer, is_signed
from tests.project import ROOT

# RFC 8032, 7.1, tests 1 and 2: public key, message, signature.
VECTORS = (
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24"
            "655141438e7a100b"
        ),
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "r",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aee"
            "b00d291612bb0c00"
        ),
    ),
)


@cache
def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verify_history", ROOT / "deploy" / "verify_history.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("key", "text", "signature"), VECTORS, ids=["empty", "one byte"])
def test_the_signatures_of_the_rfc_are_taken(key: str, text: str, signature: str) -> None:
    assert load().is_signed(key, signature, text)
    assert is_signed(key, signature, text)
    assert not load().is_signed(key, signature, text + "x")


@settings(max_examples=25)
@given(st.binary(min_size=32, max_size=32), st.text(max_size=50), st.integers(0, 511))
def test_what_the_library_signs_is_taken_and_no_bit_of_it_may_change(private: bytes, text: str, bit: int) -> None:
    signer = Signer(private)
    text = text.encode("utf-8", "ignore").decode()
    signature = signer.sign(text)
    changed = bytearray.fromhex(signature)
    changed[bit // 8] ^= 1 << bit % 8

    assert load().is_signed(signer.key, signature, text)
    assert not load().is_signed(signer.key, changed.hex(), text)
    assert not load().is_signed(Signer(b"\x01" * 31 + private[:1]).key, signature, text)


@pytest.mark.parametrize("key", ["ff" * 32, "02" + "00" * 31, "01" * 31, "01" * 33])
def test_what_is_no_key_signed_nothing(key: str) -> None:
    assert not load().is_signed(key, VECTORS[0][2], "")
    assert not is_signed(key, VECTORS[0][2], "")


@pytest.mark.parametrize("signature", ["", "00" * 63, VECTORS[0][2] + "00", "ff" * 64])
def test_what_is_no_signature_is_none(signature: str) -> None:
    assert not load().is_signed(VECTORS[0][0], signature, "")
