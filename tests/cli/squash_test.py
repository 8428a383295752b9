"""squash: one patch of several, the same bytes as the direct comparison; what it refuses. And that
neither SIMD targets nor threads change a byte."""

import shutil
import unittest

import harness
import runs


class SquashTest(harness.CheckpointTest):
    def patch(self, old, new, *options, name=None):
        """The patch file from one checkpoint directory to another."""
        path = self.dir / (name or f"{old.name}-{new.name}.patch")
        harness.run("diff", old, new, "-o", path, *options)
        return path

    def squash(self, base, patches, *options):
        path = self.dir / "squashed.patch"
        harness.run("squash", base, *patches, "-o", path, *options)
        return path

    def steps(self, view):
        return [self.step(number, view) for number in (37, 38, 39, 40)]

    def test_it_is_the_direct_patch_byte_for_byte(self):
        for view in ("bf16", "fp8"):
            steps = self.steps(view)
            patches = [self.patch(a, b) for a, b in zip(steps, steps[1:])]
            for encoding in ("auto", "context", "direct", "xor", "raw"):
                with self.subTest(view=view, encoding=encoding):
                    direct = self.patch(steps[0], steps[3], "--encoding", encoding, name="direct")
                    squashed = self.squash(steps[0], patches, "--encoding", encoding)
                    self.assertEqual(squashed.read_bytes(), direct.read_bytes())

    def test_files_that_come_change_back_and_go(self):
        """Of a file only the difference between first and last counts."""
        steps = [self.dir / f"v{i}" for i in range(4)]
        for source, copy in zip(self.steps("bf16"), steps):
            shutil.copytree(source, copy)
        for number, texts in enumerate(({}, {"new": "1", "back": "x"}, {"new": "2"}, {"new": "3"})):
            for name in ("new", "back"):
                if name in texts:
                    (steps[number] / f"{name}.txt").write_text(texts[name])
        (steps[2] / "config.json").write_text("{}")
        patches = [self.patch(a, b) for a, b in zip(steps, steps[1:])]
        squashed = self.squash(steps[0], patches)
        self.assertEqual(squashed.read_bytes(), self.patch(steps[0], steps[3]).read_bytes())
        harness.run("apply", squashed, steps[0])
        harness.assert_same_files(steps[0], steps[3])

    def test_one_patch_stays_what_it_is(self):
        old, new = self.steps("fp8")[:2]
        patch = self.patch(old, new)
        self.assertEqual(self.squash(old, [patch]).read_bytes(), patch.read_bytes())

    def test_counts_are_those_of_the_whole_way(self):
        steps = self.steps("bf16")
        patches = [self.patch(a, b) for a, b in zip(steps, steps[1:])]
        found = harness.run_json("squash", steps[0], *patches, "-o", self.dir / "out")
        self.assertEqual((found["changed"], found["tensors_changed"]), (93937, 33))

    def test_wrong_bases_gaps_and_parts_of_boards_are_refused(self):
        steps = self.steps("fp8")
        first, second, third = [self.patch(a, b) for a, b in zip(steps, steps[1:])]
        out = self.dir / "out"
        runs.refused(self, 5, ["squash", steps[1], first, second, "-o", out], "wrong base")
        runs.refused(self, 5, ["squash", steps[0], first, third, "-o", out], third)
        runs.refused(self, 5, ["squash", steps[0], second, first, "-o", out], first)
        board = self.make_board()
        for step in steps[:2]:
            harness.run("publish", step, "--board", board, "--run", "r",
                        "--baseline", self.dir / "baseline")
        (part,) = (board / "runs" / "r" / "data" / "2").rglob("*.part")
        runs.refused(self, 2, ["squash", steps[0], part, "-o", out], part, "board")
        self.assertFalse(out.exists())


class SimdTest(harness.CheckpointTest):
    def test_every_target_of_this_machine_makes_the_same_patch(self):
        targets = harness.run_json("inspect", "--build")["simd_targets"]
        self.assertEqual(targets[-1], "scalar")
        for view in ("bf16", "fp8"):
            patches = set()
            for target in targets:
                path = self.dir / f"{view}-{target}.patch"
                done = runs.run_with({"ISTHMUS_SIMD": target}, "diff", self.step(37, view),
                                     self.step(40, view), "-o", path)
                self.assertEqual(done.returncode, 0, done.stderr)
                patches.add(path.read_bytes())
                out = self.dir / f"{view}-{target}"
                done = runs.run_with({"ISTHMUS_SIMD": target}, "apply", path, self.step(37, view),
                                     "-o", out)
                self.assertEqual(done.returncode, 0, done.stderr)
                harness.assert_same_files(out, self.step(40, view))
            self.assertEqual(len(patches), 1)

    def test_the_number_of_threads_changes_no_byte(self):
        patches = set()
        for threads in (1, 2, 40):
            path = self.dir / f"{threads}.patch"
            harness.run("diff", self.step(37), self.step(40), "-o", path, "--threads", threads)
            patches.add(path.read_bytes())
        self.assertEqual(len(patches), 1)

    def test_an_unknown_target_is_refused_with_those_that_exist(self):
        done = runs.run_with({"ISTHMUS_SIMD": "mmx"}, "inspect", "--build", "--json")
        message = runs.assert_one_line(self, done, 2)
        self.assertIn("mmx", message)
        self.assertIn("scalar", message)

    def test_build_shows_the_choice(self):
        done = runs.run_with({"ISTHMUS_SIMD": "scalar"}, "inspect", "--build")
        self.assertRegex(done.stdout, r"SIMD +scalar of .*scalar\n")


if __name__ == "__main__":
    unittest.main()
