"""The numbers that docs/operations.md lists: by part, their names."""

import re

import deployed

HISTOGRAM = ("_bucket", "_sum", "_count")


def numbers():
    """{"gateway": {name, …}, "sidecar": …, "relay": …}"""
    text = (deployed.ROOT / "docs/operations.md").read_text(encoding="utf-8")
    section = re.search(r"(?ms)^## Numbers$(.*?)^## ", text)[1]
    found = {}
    for line in section.splitlines():
        if line.startswith("| `isthmus_"):
            for name in re.findall(r"`(isthmus_(\w+?)_\w+)`", line.split("|")[1]):
                found.setdefault(name[1], set()).add(name[0])
    return found


def series():
    """All names that a query can use."""
    names = set().union(*numbers().values())
    return names | {name + ending for name in names for ending in HISTOGRAM}
