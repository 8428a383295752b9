#!/usr/bin/env python3
"""systemd's own checker takes the units, and finds little that they expose."""

import pathlib
import re
import shutil
import tempfile
import unittest

import deployed
from deployed import DEPLOY, PROGRAM

MOST_EXPOSED = 20  # tenths of systemd-analyze's 10
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def has_analyze():
    """Old ones cannot look at files outside of a running system."""
    return shutil.which("systemd-analyze") and "--offline" in deployed.run("systemd-analyze", "--help").stdout


@unittest.skipUnless(has_analyze(), "no systemd-analyze with --offline")
class UnitsTest(unittest.TestCase):

    def setUp(self):
        """The units as they would lie on a machine, but with this program: what they start must exist."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.units = []
        for unit in UNITS:
            copy = pathlib.Path(folder.name) / unit.name.replace("@.", "@north-1.")
            copy.write_text(unit.read_text(encoding="utf-8").replace("/usr/bin/isthmus", PROGRAM), encoding="utf-8")
            self.units.append(copy)
        self.assertEqual(len(self.units), 3)

    def test_they_are_valid(self):
        done = deployed.run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *self.units)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_misspelled_directive_would_be_found(self):
        text = self.units[0].read_text(encoding="utf-8")
        self.units[0].write_text(text.replace("ProtectSystem", "ProtectSytsem"), encoding="utf-8")
        done = deployed.run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", self.units[0])
        self.assertIn("ProtectSytsem", done.stderr)

    def test_they_expose_little(self):
        for unit in self.units:
            with self.subTest(unit=unit.name):
                done = deployed.run("systemd-analyze", "security", "--offline=true",
                                    f"--threshold={MOST_EXPOSED}", unit)
                self.assertEqual(done.returncode, 0, done.stdout[-300:] + done.stderr)


class FilesTest(unittest.TestCase):

    def test_there_is_time_to_drain(self):
        for unit in UNITS:
            name = re.match(r"isthmus-(\w+)", unit.name)[1]
            options = (DEPLOY / "systemd" / f"{name}.toml").read_text(encoding="utf-8")
            limit = int(re.search(r"(?m)^stop-limit-s = (\d+)$", options)[1])
            patience = int(re.search(r"(?m)^TimeoutStopSec=(\d+)$", unit.read_text(encoding="utf-8"))[1])
            self.assertGreaterEqual(patience, limit + 10, unit.name)

    def test_what_is_written_lies_in_a_directory_of_the_unit(self):
        """All else is read-only to it."""
        for unit in UNITS:
            name = re.match(r"isthmus-(\w+)", unit.name)[1]
            text = unit.read_text(encoding="utf-8").replace("%i", "NAME")
            owned = [f"/var/lib/{path}/" for path in re.findall(r"(?m)^StateDirectory=(.*)$", text)]
            owned += [f"/var/cache/{path}/" for path in re.findall(r"(?m)^CacheDirectory=(.*)$", text)]
            options = (DEPLOY / "systemd" / f"{name}.toml").read_text(encoding="utf-8")
            written = re.findall(r'(?m)^#?(?:replica|cache|record-spool) = "(.*)"$', options)
            self.assertTrue(written, unit.name)
            for path in written:
                self.assertTrue(path.startswith(tuple(owned)), path)


if __name__ == "__main__":
    deployed.main()
