#!/usr/bin/env python3
"""Writes the golden vectors: make_vectors.py [DEST], DEST being this folder unless it is given.

must_decode.py and must_fail.py define them; README.md says how they lie on disk. The same bytes
come out every time, but for the parts of LIBRARY_FRAMES: there the zstd library's version decides.
"""

import json
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracle"))

import must_decode  # noqa: E402
import must_fail  # noqa: E402
from checkpoint import write_files  # noqa: E402
from wire import stored_frame  # noqa: E402

LIBRARY_FRAMES = ("compressed-frames",)
PACKED_BYTES = 16 * 1024  # larger files of a checkpoint are stored as zstd frames, NAME.zst


def packed(files):
    small = {path: data for path, data in files.items() if len(data) <= PACKED_BYTES}
    return small | {f"{p}.zst": stored_frame(d) for p, d in files.items() if p not in small}


def write_vectors(dest):
    for folder in ("must-decode", "must-fail"):
        shutil.rmtree(dest / folder, ignore_errors=True)
    decodable = must_decode.vectors()
    for name, (old, new, part) in decodable.items():
        write_files(packed(old.files), dest / "must-decode" / name / "base")
        write_files(packed(new.files), dest / "must-decode" / name / "expected")
        (dest / "must-decode" / name / "patch.part").write_bytes(part.write())
    (dest / "example.part").write_bytes(decodable["example"][2].write())

    expected = {}
    (dest / "must-fail").mkdir(parents=True)
    for name, (data, verdict) in must_fail.vectors().items():
        (dest / "must-fail" / f"{name}.part").write_bytes(data)
        expected[name] = verdict
    text = json.dumps(expected, indent=1, sort_keys=True) + "\n"
    (dest / "must-fail" / "EXPECTED.json").write_text(text)


if __name__ == "__main__":
    write_vectors(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
