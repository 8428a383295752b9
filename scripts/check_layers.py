#!/usr/bin/env python3
"""Checks that includes go downward only: check_layers.py [ROOT], ROOT holding the folder isthmus.

A file in isthmus/X/ may include "isthmus/Y/..." if Y is X, or if Y is on a lower row of ROWS.
Prints each violation as FILE:LINE: MESSAGE and exits with 1 if there is one.
"""

import pathlib
import re
import sys

# From low to high. Folders of one row do not know each other, but for EXCEPTIONS.
ROWS = (
    ("base",),
    ("tensor",),
    ("codec", "view", "net", "observe", "store"),
    ("board",),
    ("publish", "replica", "engine", "lane"),
    ("sidecar", "relay", "gateway", "upkeep", "ranks"),
    ("sim",),
    ("cli",),
)
EXCEPTIONS = {("publish", "replica")}  # the publisher's baseline is a replica

ROW_OF = {folder: row for row, folders in enumerate(ROWS) for folder in folders}
INCLUDE = re.compile(r'\s*#\s*include\s*["<]([^">]+)[">]')


def problem_with(file, folder, target):
    """What is wrong with one include of a file in isthmus/`folder`; None if nothing is."""
    if not target.startswith("isthmus/"):
        if (file.parent / target).is_file():
            return f'"{target}" must be included by its path from the root, "isthmus/..."'
        return None
    other = target.split("/")[1]
    if other not in ROW_OF:
        return f'"{target}" is in no known layer; the layers are {", ".join(ROW_OF)}'
    if other == folder or ROW_OF[other] < ROW_OF[folder] or (folder, other) in EXCEPTIONS:
        return None
    return f"{folder} must not include {other}: includes go downward only"


def violations(root):
    """Yields "FILE:LINE: MESSAGE" for every forbidden include under root/isthmus."""
    for file in sorted((root / "isthmus").rglob("*")):
        if file.suffix not in (".h", ".cc"):
            continue
        where = file.relative_to(root)
        folder = where.parts[1]
        if folder not in ROW_OF:
            yield f'{where}:1: {folder} is no known layer; the layers are {", ".join(ROW_OF)}'
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            include = INCLUDE.match(line)
            problem = include and problem_with(file, folder, include.group(1))
            if problem:
                yield f"{where}:{number}: {problem}"


def main():
    found = list(violations(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
    for violation in found:
        print(violation)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
