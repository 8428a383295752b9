"""File systems in memory for tests, in a mount namespace of the test's own process."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness
import runs

INSIDE = "RESOURCES_TEST_CAN_MOUNT"  # set when this program has restarted itself
CAN_MOUNT = os.environ.get(INSIDE) == "1"
NO_MOUNTS = "needs to mount: root, or user namespaces that may (unshare --mount --map-root-user)"
PAGE = resource.getpagesize()


def enter_namespace():
    """Restarts this program where it may mount, if there is a way and it has not done so."""
    if CAN_MOUNT:
        return
    unshare = shutil.which("unshare")
    for flags in (["--mount"], ["--mount", "--map-root-user"]):
        with tempfile.TemporaryDirectory() as place:
            probe = [unshare or "false", *flags, "mount", "-t", "tmpfs", "tmpfs", place]
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                os.environ[INSIDE] = "1"
                os.execv(unshare, [unshare, *flags, sys.executable, *sys.argv])


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True, capture_output=True)


@unittest.skipUnless(CAN_MOUNT, NO_MOUNTS)
class MountTest(runs.RunTest):
    """`small` is a file system in memory, of 4 MiB unless resized."""

    def setUp(self):
        super().setUp()
        self.small = self.dir / "small"
        self.small.mkdir()
        mount("-t", "tmpfs", "-o", "size=4m", "tmpfs", self.small)
        self.addCleanup(subprocess.run, ["umount", "-l", self.small], check=True)
        self.ballast = self.small / "ballast"

    def use_board(self, path):
        self.board = path
        self.run_options = ["--board", path, "--run", "r"]

    def fill(self, free_pages):
        """Takes all room but this many pages."""
        room = os.statvfs(self.small)
        with open(self.ballast, "wb") as ballast:
            ballast.write(bytes((room.f_bfree - free_pages) * PAGE))
        self.assertEqual(os.statvfs(self.small).f_bfree, free_pages)

    def make_room(self):
        self.ballast.unlink()

    def read_only(self):
        mount("-o", "remount,bind,ro", self.small)

    def refused_for_want_of_room(self, arguments):
        return runs.refused(self, 6, arguments, self.small)
