"""The program: `python -m isthmus` and the script `isthmus`."""

from __future__ import annotations

import os
import pathlib
import sys


def program() -> pathlib.Path:
    """Where the program of this package is."""
    return pathlib.Path(__file__).absolute().parent / "bin" / "isthmus"


def main() -> None:
    """Becomes the program, with this process's arguments."""
    file = program()
    os.execv(file, [str(file), *sys.argv[1:]])


if __name__ == "__main__":
    main()
