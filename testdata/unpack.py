#!/usr/bin/env python3
"""Rebuilds the test checkpoints: unpack.py DEST -> DEST/bf16/step-37 ... DEST/fp8/step-40.

Every file is checked against SHA256SUMS. A step that is already there and right is left alone; one
that is there and wrong is an error, never repaired in silence. Steps appear whole (written to a
temporary folder in DEST, then renamed), so parallel calls are safe. Standard library only.
README.md says how the packed files are laid out.
"""

import hashlib
import lzma
import pathlib
import struct
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
STEPS = (37, 38, 39, 40)
WIDTH_BYTES = {"bf16": 2, "fp8": 1}


class UnpackError(Exception):
    pass


def read_sums():
    """{"bf16/step-37": {"config.json": hex SHA-256, ...}, ...}"""
    sums = {}
    for line in (HERE / "SHA256SUMS").read_text().splitlines():
        digest, path = line.split("  ")
        step, name = path.rsplit("/", 1)
        sums.setdefault(step, {})[name] = digest
    return sums


def check_step(directory, want):
    """Raises unless the directory holds every file of `want` with its SHA-256."""
    for name, digest in want.items():
        path = directory / name
        if not path.is_file():
            raise UnpackError(f"{path}: missing; remove {directory} and unpack again")
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != digest:
            problem = f"{path}: SHA-256 is {found}, must be {digest}"
            raise UnpackError(f"{problem}; remove {directory} and unpack again")


def join_planes(planes, width):
    """From bytes 0 of all values, bytes 1 of all values, ... to little-endian values."""
    count = len(planes) // width
    values = bytearray(len(planes))
    for i in range(width):
        values[i::width] = planes[i * count : (i + 1) * count]
    return values


def decompress(path):
    try:
        return lzma.decompress(path.read_bytes())
    except (lzma.LZMAError, EOFError) as error:
        raise UnpackError(f"{path}: {error}") from error


def unpack_full(blob, width):
    start = 8 + struct.unpack_from("<Q", blob)[0]
    return blob[:start] + join_planes(blob[start:], width)


def apply_delta(old, blob, width):
    new = bytearray(old)
    (count,) = struct.unpack_from("<I", blob)
    values_at = 4 + 4 * count
    gaps = struct.unpack(f"<{count}I", join_planes(blob[4:values_at], 4))
    values = join_planes(blob[values_at:], width)
    at = 8 + struct.unpack_from("<Q", old)[0]
    for i, gap in enumerate(gaps):
        at += gap * width
        new[at : at + width] = values[i * width : (i + 1) * width]
    return bytes(new)


def view_steps(view):
    """Yields (step, {file name: bytes}) in order; each step is built from the one before."""
    folder, width = HERE / "packed" / view, WIDTH_BYTES[view]
    files = {p.name: p.read_bytes() for p in folder.glob("*.json")}
    shards = [p.name.removesuffix(f".step-{STEPS[0]}.xz") for p in folder.glob(f"*-{STEPS[0]}.xz")]
    for step in STEPS:
        for name in shards:
            blob = decompress(folder / f"{name}.step-{step}.xz")
            if step == STEPS[0]:
                files[name] = unpack_full(blob, width)
            else:
                files[name] = apply_delta(files[name], blob, width)
        yield step, files


def place_step(files, target, want):
    """Writes and checks one step beside its place, then renames it there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".unpack-", dir=target.parent) as scratch:
        fresh = pathlib.Path(scratch) / target.name
        fresh.mkdir()
        for name, blob in files.items():
            (fresh / name).write_bytes(blob)
        check_step(fresh, want)
        try:
            fresh.rename(target)
        except OSError:  # another call was faster, or something else is in the way
            check_step(target, want)


def unpack(dest):
    sums = read_sums()
    for view in WIDTH_BYTES:
        targets = {s: dest / view / f"step-{s}" for s in STEPS}
        missing = {s for s, path in targets.items() if not path.exists()}
        for step in set(STEPS) - missing:
            check_step(targets[step], sums[f"{view}/step-{step}"])
        for step, files in view_steps(view) if missing else ():
            if step in missing:
                place_step(files, targets[step], sums[f"{view}/step-{step}"])


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: unpack.py DEST")
    try:
        unpack(pathlib.Path(sys.argv[1]))
    except (UnpackError, OSError) as error:
        raise SystemExit(f"unpack.py: {error}") from error


if __name__ == "__main__":
    main()
