"""A plug-in of the tests: lets writes of the plug-in fail while a file says so."""

import os
import pathlib

FILE = "ISTHMUS_TEST_FAIL_WRITE"  # the environment's name of the file


def register():
    from isthmus.vllm import scatter

    write_new = scatter._write_new
    if write_new.__module__ == __name__:
        return

    def failing(write):
        """Fails at the write whose number, from 1, the file counts down to."""
        path = pathlib.Path(os.environ[FILE])
        if path.exists():
            left = int(path.read_text())
            if left == 0:
                raise OSError("a write that the test lets fail")
            path.write_text(str(left - 1))
        write_new(write)

    scatter._write_new = failing
