# SPDX-License-Identifier: Apache-2.0
"""What does the first page of a bundle say to somebody who has never heard of us, and wants to check what is in it?"""

from __future__ import annotations

from datetime import datetime
from textwrap import dedent

from registry.domain.checkpoints import Checkpoint
from registry.domain.times import brief
from registry.services.device_view import DeviceView


def readme(view: DeviceView, checkpoint: Checkpoint | None, at: datetime) -> str:
    """Write the README of a bundle."""
    device = view.device
    return dedent(
        """\
        Evidence about one device, from a Pratique server
        =================================================

        Kind       {kind}, {vendor} {model}
        Serial     {serial}
        UUID       {uuid}
        State      {state}: {sentence}
        As of      {at}
        Swap test  {swap}

        What is in here
        ---------------

        identity.json      what the device is, and everything that was ever printed to identify it
        timeline.svg       its whole life as a picture; timeline.json has the same as data
        swap_test.txt      whether its fault went with the card or stayed with the slot
        failures.csv       every failure on record, with what was seen
        dcgm.json          what NVIDIA DCGM said of it
        holds.json         the newest quarantines, by whom and why
        notes.json         the newest notes of people
        history.ndjson     every event of the device on every node, {events} in all, one a line, each with its proof
        checkpoints.jsonl  the signed checkpoint that the proofs lead to, and the hand-overs of its key
        SHA256SUMS         the digests of these files

        Reasons, messages and notes are what people and machines wrote: read them before you pass this on.

        How to verify it
        ----------------

        Nothing of the service is needed. First, that no file was damaged:

            sha256sum -c SHA256SUMS

        Then, that the history is the one that was signed, and that no event of this device was left out:

            python3 verify_history.py --key KEY --checkpoints checkpoints.jsonl history.ndjson

        verify_history.py is in the folder deploy/ of Pratique's sources and needs Python alone. KEY is the public key
        of the server that made this: ask the one who gave you the bundle for it on another way, and do not take it
        from the bundle itself. Whoever has kept a checkpoint of that server can give it in place of checkpoints.jsonl.

        {signed}
        """
    ).format(
        kind=device["kind"].upper(),
        vendor=device["vendor"],
        model=device["model"] or "(no model known)",
        serial=device["serial"] or "none known",
        uuid=device["uuid"] or "none known",
        state=device["state"],
        sentence=view.sentence,
        at=brief(at),
        swap=view.swap_test.sentence,
        events=view.events_in_all,
        signed=_signed(checkpoint),
    )


def _signed(checkpoint: Checkpoint | None) -> str:
    if checkpoint is None:
        return "No checkpoint has been signed yet: the events have no proofs, and the history cannot be verified."
    return (
        f"The checkpoint is of entry {checkpoint.sequence} and was signed at {checkpoint.signed_at}. Events that are\n"
        "newer than it have no proof yet; a later bundle will have it."
    )
