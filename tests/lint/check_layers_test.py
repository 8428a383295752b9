"""Tests of scripts/check_layers.py on small trees."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "check_layers.py"


class CheckLayersTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def check(self):
        """Returns (exit status, lines printed)."""
        done = subprocess.run([sys.executable, SCRIPT, self.root], capture_output=True, text=True)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()

    def assert_refused(self, path, line, text):
        status, lines = self.check()
        self.assertEqual((status, len(lines)), (1, 1), lines)
        self.assertTrue(lines[0].startswith(f"{path}:{line}: "), lines)
        self.assertIn(text, lines[0])

    def test_downward_and_own_includes_pass(self):
        self.write("isthmus/board/board.cc",
                   '#include "isthmus/board/board.h"\n#include "isthmus/base/error.h"\n'
                   '#include "isthmus/codec/patch.h"\n#include <vector>\n'
                   '#include "gtest/gtest.h"\n')
        self.assertEqual(self.check(), (0, []))

    def test_an_upward_include_is_refused_with_its_line(self):
        self.write("isthmus/base/error.h", "#pragma once\n\n" '#include "isthmus/tensor/dtype.h"\n')
        self.assert_refused("isthmus/base/error.h", 3, "base must not include tensor")

    def test_spaces_and_angle_brackets_do_not_hide_an_include(self):
        self.write("isthmus/base/error.cc", "  #  include <isthmus/cli/main.h>\n")
        self.assert_refused("isthmus/base/error.cc", 1, "base must not include cli")

    def test_folders_of_one_row_do_not_include_each_other(self):
        self.write("isthmus/codec/diff.cc", '#include "isthmus/view/kernels.h"\n')
        self.assert_refused("isthmus/codec/diff.cc", 1, "codec must not include view")

    def test_publish_may_include_replica_and_not_the_other_way_round(self):
        self.write("isthmus/publish/publisher.cc", '#include "isthmus/replica/replica.h"\n')
        self.write("isthmus/replica/planner.cc", '#include "isthmus/publish/publisher.h"\n')
        self.assert_refused("isthmus/replica/planner.cc", 1, "replica must not include publish")

    def test_an_unknown_folder_is_refused_in_both_directions(self):
        self.write("isthmus/utils/misc.h", "\n")
        self.assert_refused("isthmus/utils/misc.h", 1, "no known layer")
        (self.root / "isthmus/utils/misc.h").unlink()
        self.write("isthmus/cli/main.cc", '#include "isthmus/utils/misc.h"\n')
        self.assert_refused("isthmus/cli/main.cc", 1, "no known layer")

    def test_a_relative_include_is_refused(self):
        self.write("isthmus/board/board.h", "\n")
        self.write("isthmus/base/error.cc", '#include "../board/board.h"\n')
        self.assert_refused("isthmus/base/error.cc", 1, "by its path from the root")

    def test_every_violation_is_listed(self):
        self.write("isthmus/base/a.cc", '#include "isthmus/cli/x.h"\n#include "isthmus/sim/y.h"\n')
        status, lines = self.check()
        self.assertEqual((status, len(lines)), (1, 2), lines)


if __name__ == "__main__":
    unittest.main()
