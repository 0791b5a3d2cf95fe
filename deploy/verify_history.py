#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Is an exported history the one that was signed? Checked offline, with Python alone and nothing of the service.

    verify_history.py --key HEX --checkpoints FILE history.ndjson    the whole history, from `pratique events export`
    verify_history.py --key HEX --checkpoints FILE device.json       one device: `pratique device history --proof N`
                                                                     or the history.ndjson of `pratique device bundle`

HEX is the public key that you trust (`pratique audit key`), FILE what you kept of `pratique audit checkpoint` or of the
file that checkpoints are written to. Exit code 0: every entry follows from the one before and agrees with every
checkpoint of it; 1: the first entry or checkpoint that does not is named. docs/auditor.md describes the formats.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D, ROOT_OF_MINUS_ONE = -121665 * pow(121666, -1, P) % P, pow(2, (P - 1) // 4, P)


def point(raw):
    """Read a point of Ed25519: https://www.rfc-editor.org/rfc/rfc8032#section-5.1.3."""
    number = int.from_bytes(raw, "little")
    y, sign = number % 2**255, number >> 255
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if x * x % P == square else x * ROOT_OF_MINUS_ONE % P
    if y >= P or x * x % P != square or (x == 0 and sign):
        raise ValueError("no point of the curve")
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


def add(one, other):
    """Add two points: https://www.rfc-editor.org/rfc/rfc8032#section-5.1.4."""
    a, b = (one[1] - one[0]) * (other[1] - other[0]), (one[1] + one[0]) * (other[1] + other[0])
    c, d = 2 * one[3] * other[3] * D, 2 * one[2] * other[2]
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(number, base):
    found = (0, 1, 1, 0)
    for bit in f"{number:b}":
        found = add(found, found)
        found = add(found, base) if bit == "1" else found
    return found


def is_signed(key, signature, text):
    """Verify a signature: https://www.rfc-editor.org/rfc/rfc8032#section-5.1.7."""
    key, signature = bytes.fromhex(key), bytes.fromhex(signature)
    s = int.from_bytes(signature[32:], "little")
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + text.encode()).digest(), "little") % L
    try:
        left = times(s, point((4 * pow(5, -1, P) % P).to_bytes(32, "little")))
        right = add(point(signature[:32]), times(k, point(key)))
    except ValueError:
        return False
    same = all((left[i] * right[2] - right[i] * left[2]) % P == 0 for i in (0, 1))
    return len(key) == 32 and len(signature) == 64 and s < L and same


def canonical(members, *left_out):
    kept = {name: value for name, value in members.items() if name not in left_out}
    return json.dumps(kept, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def leaf_of(entry, previous=None):
    """Hash an entry again, and then as a leaf: its hash covers its text and the hash before."""
    text = canonical({**entry, "v": 1}, "hash", "prev_hash", "proof")
    if hashlib.sha256((entry["prev_hash"] + text).encode()).hexdigest() != entry["hash"]:
        sys.exit(f"entry {entry['sequence']} was changed")
    if previous is not None and entry["prev_hash"] != previous:
        sys.exit(f"entry {entry['sequence']} does not follow from the one before")
    return hashlib.sha256(b"\0" + bytes.fromhex(entry["hash"])).digest()


def join(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def follow(key, rotations):
    """Give each key that a trusted one was handed over to or from, with the first and last entry it may sign."""
    spans = {key: [0, 2**63]}
    for here, there in (("new_key", "old_key"), ("old_key", "new_key")):
        at = key
        while found := [one for one in rotations if one[here] == at]:
            one, text = found[0], canonical(found[0], "old_signature", "new_signature")
            signed = all(is_signed(one[f"{side}_key"], one[f"{side}_signature"], text) for side in ("old", "new"))
            if not signed or found.count(one) < len(found) or one[there] in spans:
                sys.exit(f"the key {at} was not handed over as it should be")
            spans[one[there]] = [0, 2**63]
            spans[one["old_key"]][1] = spans[one["new_key"]][0] = one["sequence"]
            at = one[there]
    return spans


def read_checkpoints(text, key):
    """Read what was kept, by entry. A checkpoint counts when a key signed it that may."""
    try:
        statements = [json.loads(text)]
    except ValueError:
        statements = [json.loads(line) for line in text.splitlines() if line.strip()]
    spans, kept = follow(key, [one for one in statements if "old_key" in one]), {}
    for one in (statement for statement in statements if "root" in statement):
        first, last = spans.get(one["key"], (1, 0))
        text = canonical(one, "signature")
        if not first <= one["sequence"] <= last or not is_signed(one["key"], one["signature"], text):
            sys.exit(f"the checkpoint of entry {one['sequence']} is not signed by a key to be believed")
        if kept.setdefault(one["sequence"], one)["root"] != one["root"]:
            sys.exit(f"two checkpoints of entry {one['sequence']} contradict each other")
    return kept or sys.exit("there is no checkpoint in the file")


def verify_all(lines, kept):
    """Check a whole history, entry after entry. `peaks` are the roots of the complete subtrees so far."""
    head, size, covered, peaks = "0" * 64, 0, 0, []
    for line in lines:
        entry = json.loads(line)
        if entry.get("sequence") != size + 1:
            sys.exit(f"entry {size + 1} is missing or was changed, or something was put in before it")
        root = leaf_of(entry, head)
        head, left, size = entry["hash"], size, size + 1
        while left & 1:
            root, left = join(peaks.pop(), root), left >> 1
        peaks.append(root)
        if size in kept:
            for peak in peaks[-2::-1]:
                root = join(peak, root)
            if (head, root.hex()) != (kept[size]["hash"], kept[size]["root"]):
                sys.exit(f"something from entry {covered + 1} to {size} was changed since its checkpoint was signed")
            covered = size
    if max(kept) > size:
        sys.exit(f"entries after {size} are missing: there is a checkpoint of entry {max(kept)}")
    print(f"{size} entries, head {head}; {len(kept)} checkpoints agree, the last is of entry {covered}")


def verify_some(entries, kept):
    """Check entries of one device, each by its own proof: https://www.rfc-editor.org/rfc/rfc9162#section-2.1.3.2."""
    proved = [entry for entry in entries if entry["proof"] is not None]
    for entry in proved:
        root, here, last = leaf_of(entry), entry["sequence"] - 1, entry["proof"]["size"] - 1
        for one in entry["proof"]["path"]:
            if here & 1 or here == last:
                root = join(bytes.fromhex(one), root)
                while not here & 1 and here:
                    here, last = here >> 1, last >> 1
            else:
                root = join(root, bytes.fromhex(one))
            here, last = here >> 1, last >> 1
        if last or root.hex() != kept.get(entry["proof"]["size"], {"root": None})["root"]:
            sys.exit(f"entry {entry['sequence']} is in no history that was signed in the checkpoints you have")
    counts = [{(one["kind"], one["id"]): one["ordinal"] for one in entry["subjects"]} for entry in entries]
    common = set.intersection(*map(set, counts)) if counts else set()
    if not any([count[one] for count in counts] == list(range(1, len(counts) + 1)) for one in common):
        sys.exit("entries are missing: no device counts them 1, 2, 3 and so on")
    print(f"{len(proved)} of {len(entries)} entries are proved; the others are newer than the checkpoint")


def is_of_one_device(line):
    """Tell whether a line is an entry with its own proof: only the entries of one device come with them."""
    try:
        return "proof" in json.loads(line)
    except (ValueError, TypeError):
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--key", required=True, help="the public key that you trust, 64 hexadecimal digits")
    parser.add_argument("--checkpoints", required=True, type=Path, help="the checkpoints that you kept")
    parser.add_argument("export", type=Path)
    given = parser.parse_args()
    kept = read_checkpoints(given.checkpoints.read_text(encoding="utf-8"), given.key)
    with given.export.open(encoding="utf-8") as file:
        first = file.readline()
        file.seek(0)
        if is_of_one_device(first):
            verify_some([json.loads(line) for line in file if line.strip()], kept)
        elif first[:1] == "{" and '"items"' in file.read(100):
            verify_some(json.loads(given.export.read_text(encoding="utf-8"))["items"], kept)
        else:
            file.seek(0)
            verify_all(file, kept)


if __name__ == "__main__":
    try:
        main()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        sys.exit(f"this is no export, or no checkpoint: {type(error).__name__}: {error}")
