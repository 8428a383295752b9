"""Access to the golden vectors; tests/golden/README.md says how they lie on disk."""

import json
import pathlib

from wire import decompress, frame_sizes

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"


def must_decode():
    return sorted((GOLDEN / "must-decode").iterdir())


def must_fail():
    """{name: {"reason", "why", "stage", "base"}}"""
    return json.loads((GOLDEN / "must-fail" / "EXPECTED.json").read_text())


def read_tree(directory):
    """{path: content} of all files, hidden ones too; NAME.zst is read as NAME, unpacked."""
    files = {}
    for path in sorted(directory.rglob("*")):
        name = path.relative_to(directory).as_posix()
        if path.is_file():
            data = path.read_bytes()
            if name.endswith(".zst"):
                data = decompress(data, frame_sizes(data, name)[0], name)
                name = name.removesuffix(".zst")
            files[name] = data
    return files
