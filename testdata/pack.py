#!/usr/bin/env python3
"""Cuts, packs and counts the checkpoints of this folder. Needs numpy; unpack.py does not.

    pack.py SOURCE          SOURCE holds bf16/step-37 ... step-40 and fp8/step-37 ... step-40

Writes packed/, SHA256SUMS and truths.json beside this script. bf16 is stored whole; of fp8 only
the tensors of CUT are kept, the query in shard 1 and the key in shard 2. README.md has the format.
"""

import hashlib
import itertools
import json
import lzma
import pathlib
import struct
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
STEPS = (37, 38, 39, 40)
WIDTH_BYTES = {"bf16": 2, "fp8": 1}  # of one element, as the packed planes see a data section
DTYPES = {"BF16": "<u2", "F8_E4M3": "u1", "F32": "<u4"}  # compared as bits, never as numbers
INDEX = "model.safetensors.index.json"
QUERY = "encoder.layer.0.attention.self.query.weight"
KEY = "encoder.layer.0.attention.self.key.weight"
CUT = {
    "model-00001-of-00002.safetensors": (QUERY + "_scale_inv", QUERY),
    "model-00002-of-00002.safetensors": (KEY + "_scale_inv", KEY),
}


def parse_shard(blob):
    """Returns (header JSON without __metadata__, data section)."""
    (header_bytes,) = struct.unpack_from("<Q", blob)
    header = json.loads(blob[8 : 8 + header_bytes])
    header.pop("__metadata__", None)
    return header, blob[8 + header_bytes :]


def build_shard(tensors):
    """One safetensors file; tensors is a list of (name, dtype, shape, bytes)."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape, blob in tensors:
        end = offset + len(blob)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(t[3] for t in tensors)


def read_step(directory):
    return {p.name: p.read_bytes() for p in sorted(directory.iterdir())}


def cut_fp8(files):
    """The same checkpoint with the tensors of CUT only."""
    found = {}
    for name in CUT:
        header, data = parse_shard(files[name])
        for tensor, about in header.items():
            begin, end = about["data_offsets"]
            found[tensor] = (tensor, about["dtype"], about["shape"], data[begin:end])
    cut = {"config.json": files["config.json"]}
    for name, tensors in CUT.items():
        cut[name] = build_shard([found[t] for t in tensors])
    weight_map = {t: name for name, tensors in CUT.items() for t in tensors}
    total = sum(len(found[t][3]) for t in weight_map)
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    cut[INDEX] = json.dumps(index, indent=1).encode()
    return cut


def planes(values, width):
    """Bytes 0 of all values, then bytes 1 of all values, ..."""
    return np.ascontiguousarray(values).view("u1").reshape(-1, width).T.tobytes()


def compress(blob):
    return lzma.compress(blob, format=lzma.FORMAT_XZ, preset=9 | lzma.PRESET_EXTREME)


def pack_full(blob, width):
    (header_bytes,) = struct.unpack_from("<Q", blob)
    body = np.frombuffer(blob, f"<u{width}", offset=8 + header_bytes)
    return compress(blob[: 8 + header_bytes] + planes(body, width))


def pack_delta(old, new, width):
    (header_bytes,) = struct.unpack_from("<Q", old)
    start = 8 + header_bytes
    if old[:start] != new[:start] or len(old) != len(new):
        raise SystemExit("pack.py: two steps of one shard differ in header or size")
    a, b = (np.frombuffer(x, f"<u{width}", offset=start) for x in (old, new))
    where = np.flatnonzero(a != b)
    gaps = np.diff(where, prepend=0).astype("<u4")
    return compress(struct.pack("<I", len(where)) + planes(gaps, 4) + planes(b[where], width))


def write_packed(view, steps):
    """steps: {step: {file name: bytes}}"""
    folder = HERE / "packed" / view
    folder.mkdir(parents=True, exist_ok=True)
    for name, blob in steps[STEPS[0]].items():
        if not name.endswith(".safetensors"):
            if any(steps[s][name] != blob for s in STEPS):
                raise SystemExit(f"pack.py: {view}/{name} is not the same in all steps")
            (folder / name).write_bytes(blob)
            continue
        width = WIDTH_BYTES[view]
        (folder / f"{name}.step-{STEPS[0]}.xz").write_bytes(pack_full(blob, width))
        for old, new in itertools.pairwise(STEPS):
            packed = pack_delta(steps[old][name], steps[new][name], width)
            (folder / f"{name}.step-{new}.xz").write_bytes(packed)


def tensors_of(files):
    found = {}
    for name in sorted(n for n in files if n.endswith(".safetensors")):
        header, data = parse_shard(files[name])
        for tensor, about in header.items():
            begin, end = about["data_offsets"]
            found[tensor] = np.frombuffer(data[begin:end], DTYPES[about["dtype"]])
    return dict(sorted(found.items()))


def count(steps):
    """The truth table of one view: counted tensor by tensor from the unpacked files."""
    parsed = {s: tensors_of(files) for s, files in steps.items()}
    first = parsed[STEPS[0]]
    truth = {
        "elements": sum(t.size for t in first.values()),
        "data_bytes": sum(t.nbytes for t in first.values()),
        "tensors": {name: t.size for name, t in first.items()},
        "pairs": [],
    }
    for old, new in itertools.combinations(STEPS, 2):
        per_tensor = {n: int(np.count_nonzero(parsed[old][n] != parsed[new][n])) for n in first}
        truth["pairs"].append({
            "from": old,
            "to": new,
            "changed": sum(per_tensor.values()),
            "tensors_changed": sum(c > 0 for c in per_tensor.values()),
            "changed_by_tensor": per_tensor,
        })
    return truth


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    source, sums, truths = pathlib.Path(sys.argv[1]), [], {}
    for view in WIDTH_BYTES:
        steps = {s: read_step(source / view / f"step-{s}") for s in STEPS}
        if view == "fp8":
            steps = {s: cut_fp8(files) for s, files in steps.items()}
        write_packed(view, steps)
        truths[view] = count(steps)
        for step, files in steps.items():
            for name, blob in sorted(files.items()):
                sums.append(f"{hashlib.sha256(blob).hexdigest()}  {view}/step-{step}/{name}\n")
    (HERE / "SHA256SUMS").write_text("".join(sums))
    (HERE / "truths.json").write_text(json.dumps(truths, indent=1) + "\n")


if __name__ == "__main__":
    main()
