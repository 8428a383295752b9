"""isthmus simulate: the example scenarios run, say the same again, and bad files are refused."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import harness

EXAMPLES = harness.ROOT / "examples" / "simulate"
SCENARIO = {
    "comment": "one\nisland",
    "hours": 0.5,
    "model": {"checkpoint_bytes": 1e9, "density": 0.01},
    "trainer": {"mode": "cadence", "step_s": 60, "in_flight": 8},
    "rollouts": {"mean_tokens": 100},
    "engine": {"tokens_per_s": 100, "slots": 4, "pause_s": 0.1, "load_s": 1},
    "regions": [{"name": "a", "islands": 1, "link_gbit_s": 1}],
}


def simulate(path, *options):
    return harness.run_json("simulate", path, *options)


def without_times(outcome):
    """What does not depend on how fast this machine is."""
    for side in ("patches", "full_checkpoints"):
        if side in outcome:
            for key in ("seconds", "cpu_seconds", "events_per_second"):
                del outcome[side][key]
    return outcome


class SimulateTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-test-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)

    def scenario(self, **changes):
        path = self.dir / "scenario.json"
        path.write_text(json.dumps({**SCENARIO, **changes}))
        return path

    def test_every_example_runs_and_says_what_it_shows(self):
        examples = sorted(EXAMPLES.glob("*.json"))
        self.assertGreaterEqual(len(examples), 3)
        for example in examples:
            with self.subTest(example.name):
                outcome = simulate(example, "--hours", 0.3)
                self.assertTrue(outcome["comment"])
                self.assertIn(f"`{example.name}`", (EXAMPLES / "README.md").read_text())
                patches, full = outcome["patches"], outcome["full_checkpoints"]
                self.assertGreater(patches["rollouts"], 0)
                self.assertLess(sum(region["link_bytes"] for region in patches["regions"]),
                                sum(region["link_bytes"] for region in full["regions"]))
                self.assertLessEqual(patches["lag_end"]["mean"], full["lag_end"]["mean"])

    def test_eight_regions_have_a_thousand_islands_and_a_terabyte(self):
        example = json.loads((EXAMPLES / "eight-regions.json").read_text())
        self.assertEqual([region["islands"] for region in example["regions"]], [125] * 8)
        self.assertEqual(example["model"]["checkpoint_bytes"], 1e12)
        links = [region["link_gbit_s"] for region in example["regions"]]
        self.assertEqual((min(links), max(links)), (1, 10))

    def test_a_seed_decides_everything(self):
        small = EXAMPLES / "small.json"
        options = ("--hours", 0.2, "--publish", "patches")
        first = without_times(simulate(small, *options))
        self.assertEqual(first, without_times(simulate(small, *options)))
        self.assertNotEqual(first, without_times(simulate(small, *options, "--seed", 2)))

    def test_all_time_of_all_islands_is_accounted_for(self):
        outcome = simulate(EXAMPLES / "spot.json", "--hours", 1, "--publish", "patches")["patches"]
        self.assertAlmostEqual(sum(outcome["spent"].values()), 3600 * outcome["islands"], 3)
        self.assertGreater(outcome["kills"], 0)
        self.assertGreater(outcome["spent"]["down_s"], 0)

    def test_one_side_alone_is_what_it_is_in_both(self):
        both = without_times(simulate(self.scenario()))
        for option, key in (("patches", "patches"), ("full", "full_checkpoints")):
            alone = without_times(simulate(self.scenario(), "--publish", option))
            self.assertEqual(set(alone), {"comment", "seed", key})
            self.assertEqual(alone[key], both[key])

    def test_text_has_both_sides_and_the_histogram(self):
        text = harness.run("simulate", self.scenario()).stdout
        self.assertIn("one?island", text.splitlines()[0])
        self.assertRegex(text, r"1 islands, 0.5 h +patches +full checkpoints")
        for row in ("rollouts an hour", "lag at admission", "paused for a switch",
                    "over the link to a", "versions behind at admission"):
            self.assertRegex(text, rf"(?m)^ *{row}.*[0-9a-z]")

    def test_bad_scenarios_are_refused_by_field(self):
        for changes, says in (
                ({"hour": 1}, "hour: unknown"),
                ({"hours": -1}, "hours: found -1"),
                ({"regions": [{"name": "a", "islands": 1e9}]}, "regions[0].islands"),
                ({"trainer": {"mode": "magic"}}, 'trainer.mode: found "magic"')):
            with self.subTest(says):
                error = harness.run_json("simulate", self.scenario(**changes), expect=2)["error"]
                self.assertEqual(error["code"], "invalid")
                self.assertIn(says, error["message"])
                self.assertIn("scenario.json", error["message"])

    def test_bad_files_and_options_are_refused(self):
        harness.run("simulate", self.dir / "none.json", expect=3)
        huge = self.dir / "huge.json"
        huge.write_bytes(b" " * (1 << 20) + b"{}")
        self.assertIn("larger than", harness.run("simulate", huge, expect=2).stderr)
        (self.dir / "binary.json").write_bytes(bytes(range(256)))
        self.assertIn("not JSON", harness.run("simulate", self.dir / "binary.json", expect=2).stderr)
        for options in (("--hours", -1), ("--hours", "nan"), ("--hours", 1e9), ("--seed", -1),
                        ("--publish", "nothing")):
            with self.subTest(options):
                harness.run("simulate", self.scenario(), *options, expect=2)

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([harness.PROGRAM, "simulate", self.scenario()], stdout=full,
                                  stderr=subprocess.PIPE, env=harness.ENVIRONMENT, check=False)
        self.assertEqual(done.returncode, 6, done.stderr)


if __name__ == "__main__":
    unittest.main()
