"""Publishing from many ranks, with real processes: what they publish is the checkpoint that one
process would have, whatever the shares, the ranks and the baselines (docs/ranks.md)."""

import json
import shutil
import unittest

import harness
import rank_runs
import shares
from rank_runs import SMALL, RanksTest

# Tensors of several chunks, cut in the middle of chunks, and a pool.
LARGE = {"big": ("BF16", [2049, 1024]), "embed": ("BF16", [1000, 1500]), "w8": ("F8_E4M3", [3000, 700]),
         "w64": ("F64", [700, 1000]), "norm.0": ("BF16", [777]), "norm.1": ("F32", [33]),
         "scalar": ("F32", []), "empty": ("F32", [0, 3])}
KINDS = {f"{dtype}.{number}": (dtype, shape) for dtype in shares.BITS
         for number, shape in enumerate([[24, 16], [8], [4, 2, 2], [0], [3, 0, 8]])}
ODD = {"f4.rows": ("F4", [6, 3]), "f4": ("F4", [300, 8]), "f6": ("F6_E2M3", [12, 4]),
       "f6.one": ("F6_E3M2", [4]), "scalar.i64": ("I64", []), "scalar.bool": ("BOOL", []),
       "scalar.f64": ("F64", []), "one": ("BF16", [1]), "wide": ("BF16", [1, 5000])}
MANY = {f"layer.{i}.{'weight' * 12}": (dtype, [1 + i % 23, 1 + i % 5]) for i in range(1500)
        for dtype in ["BF16" if i % 3 else "F32"]}


class SharesTest(RanksTest):

    def test_each_number_of_ranks_publishes_large_and_small_tensors(self):
        for ranks in (1, 2, 3, 5, 8):
            with self.subTest(ranks=ranks):
                self.setUp()
                self.begin(LARGE)
                for split in (shares.by_rows, shares.by_rows, shares.at_random):
                    self.publish_step(ranks, split)
                self.assert_head("fresh")
                harness.run("verify", *self.run_options, "--deep", "--rebuild", 4)
                self.doCleanups()

    def test_every_dtype_scalars_and_empty_tensors(self):
        self.begin(KINDS | ODD)
        for ranks in (3, 5):
            for split in (shares.by_rows, shares.by_tensors, shares.at_random):
                for one_in in (50, 1):
                    self.publish_step(ranks, split, one_in)

    def test_pools_of_very_many_tensors(self):
        self.begin(MANY)
        for split in (shares.by_rows, shares.at_random, shares.by_tensors):
            self.publish_step(4, split, 20)

    def test_ranks_and_shares_change_from_version_to_version(self):
        self.begin(LARGE)
        splits = (shares.by_rows, shares.at_random, shares.by_tensors)
        for ranks in (3, 2, 8, 1, 5, 4):
            self.publish_step(ranks, self.random.choice(splits))
        self.assert_head("fresh")

    def test_nothing_changed_and_everything_changed(self):
        self.begin(LARGE)
        for one_in in (0, 1, 0, 0, 400):
            self.publish_step(3, one_in=one_in)
            entry = harness.run_json("log", *self.run_options)["versions"][0]
            units = sum(shares.bytes_of(*kind) // rank_runs.unit_bytes(kind[0])
                        for kind in LARGE.values())
            if one_in < 2:
                self.assertEqual(entry["changed"], units * one_in)

    def test_more_ranks_than_rows(self):
        self.begin(SMALL)
        for split in (shares.by_rows, shares.by_tensors, shares.at_random):
            self.publish_step(13, split)

    def test_one_process_and_ranks_in_turn(self):
        self.begin(SMALL)
        for ranks in (3, 2, 3):
            self.publish_step(ranks)
            self.model.step()
            self.publish_whole()
            self.assert_head()
        self.model = shares.Model(SMALL | {"more": ("BF16", [9, 9])}, self.random)
        self.publish_whole()  # another model: only one process can begin with it
        self.publish_step(3)

    def test_several_versions_each_pulled_by_its_number(self):
        self.begin(SMALL)
        kept = [self.keep(1)]
        for version, ranks in enumerate((3, 2, 5, 3), 2):
            self.publish_step(ranks)
            kept.append(self.keep(version))
        for version in self.random.sample(range(1, 6), 5):
            harness.run("pull", *self.run_options, "--replica", self.dir / "any", "--version", version)
            harness.assert_same_files(self.dir / "any", kept[version - 1])
        entries = harness.run_json("log", *self.run_options)["versions"]
        self.assertEqual([entry["step"] for entry in entries], [5, 4, 3, 2, 1])

    def keep(self, version):
        return self.model.write_checkpoint(self.dir / f"kept-{version}")

    def test_signed_by_all_and_trusted_by_all(self):
        harness.run("key", "new", self.dir / "key")
        trust = ["--trust", self.dir / "key.pub"]
        self.publish_options = ["--sign-key", self.dir / "key", *trust]
        self.read_options = trust
        self.begin(SMALL)
        for _ in range(3):
            self.publish_step(3)
        harness.run("verify", *self.run_options, "--deep", *trust)

    def test_steps_of_any_sign_and_meta_of_the_lead(self):
        self.begin(SMALL)
        for step in (-(1 << 63), -1, 0, (1 << 63) - 1):
            self.next_step(2)
            done = shares.finish_all([self.start(rank, 2, "--meta", f"of=rank {rank}", step=step)
                                      for rank in range(2)])
            self.assert_published(done)
            entry = json.loads(self.log()[f"{self.head():010}.json"])
            self.assertEqual((entry["step"], entry["meta"]), (step, {"of": "rank 0"}))
        self.assert_head()


class BaselinesTest(RanksTest):

    def setUp(self):
        super().setUp()
        self.begin(SMALL | {"big": ("F16", [1100, 1024])})
        self.publish_step(3)

    def notes(self, ranks=3):
        """Publishes a step; by rank, whether the baseline was built anew."""
        self.next_step(ranks)
        done = self.publish(ranks)
        self.assert_published(done)
        self.assert_head()
        return ["built anew" in process.stderr for process in done]

    def flip(self, path, *places):
        content = bytearray(path.read_bytes())
        for place in places:
            content[place] ^= 1
        path.write_bytes(content)

    def test_kept_ones_are_used(self):
        self.assertEqual([self.notes(), self.notes()], [[False] * 3] * 2)

    def test_deleted_ones_are_built_anew(self):
        shutil.rmtree(self.ranks.baseline(1))
        self.assertEqual(self.notes(), [False, True, False])
        for name in ("regions", "state.json", "outline", "rank-baseline"):
            with self.subTest(name):
                for rank in range(3):
                    folder = self.ranks.baseline(rank)
                    if name == "rank-baseline":
                        shutil.rmtree(folder)
                    else:
                        (folder / name).unlink()
                self.notes()

    def test_damage_is_noticed_together(self):
        for rank in range(3):
            regions = self.ranks.baseline(rank) / "regions"
            places = [0, -1, self.random.randrange(regions.stat().st_size)]
            for place in places:
                with self.subTest(rank=rank, place=place):
                    self.flip(regions, place)
                    self.assertEqual(self.notes(), [True] * 3)
                    self.assertEqual(self.notes(), [False] * 3)

    def test_damage_everywhere(self):
        for rank in range(3):
            regions = self.ranks.baseline(rank) / "regions"
            self.flip(regions, *range(0, regions.stat().st_size, 999))
        self.assertEqual(self.notes(), [True] * 3)

    def test_ones_that_were_cut_short_or_grew(self):
        for size in (0, 1, 100, 10_000_000):
            with self.subTest(size=size):
                with open(self.ranks.baseline(1) / "regions", "r+b") as regions:
                    regions.truncate(size)
                self.assertEqual(self.notes(), [False, True, False])

    def test_damaged_states(self):
        for name in ("state.json", "writer"):
            for content in (b"", b"{", bytes(70_000), b'{"format":1}'):
                with self.subTest(name, content=content[:20]):
                    for rank in range(3):
                        (self.ranks.baseline(rank) / name).write_bytes(content)
                    self.assertEqual(self.notes(), [name == "state.json"] * 3)

    def test_damaged_outlines(self):
        outline = self.ranks.baseline(0) / "outline"
        whole = outline.read_bytes()
        for content in (b"", whole[:-1], whole + b"x", whole.replace(b"model-0", b"model-7"),
                        whole.replace(b"norm", b"norn")):
            with self.subTest(content=content[-20:]):
                outline.write_bytes(content)
                self.notes()

    def test_ones_of_another_rank(self):
        places = [self.ranks.baseline(rank) for rank in range(3)]
        places[1].rename(self.dir / "free")
        places[2].rename(places[1])
        (self.dir / "free").rename(places[2])
        self.assertEqual(self.notes(), [False, True, True])

    def test_ones_of_another_run_or_board(self):
        harness.run("board", "init", self.dir / "second")
        for options in (["--board", self.board, "--run", "s"], ["--board", self.dir / "second", "--run", "r"]):
            with self.subTest(options):
                self.run_options = self.ranks.options = options
                shutil.rmtree(self.dir / "whole")
                self.publish_whole()
                shutil.rmtree(self.dir / "replica")
                self.assertEqual(self.notes(), [True] * 3)
                self.assertEqual(self.notes(), [False] * 3)

    def test_ones_of_an_older_version(self):
        shutil.copytree(self.ranks.baseline(1), self.dir / "old")
        self.notes()
        shutil.rmtree(self.ranks.baseline(1))
        (self.dir / "old").rename(self.ranks.baseline(1))
        self.assertEqual(self.notes(), [False, True, False])

    def test_ones_of_another_boot(self):
        for rank in range(3):
            state = self.ranks.baseline(rank) / "state.json"
            state.write_text(state.read_text().replace('"boot":"', '"boot":"0'))
        self.assertEqual(self.notes(), [True] * 3)


class UpkeepTest(RanksTest):

    def clean(self, grace_h):
        return harness.run_json("board", "gc", *self.run_options, "--keep-last", 2,
                                "--keep-younger-h", 0, "--grace-h", grace_h, "--apply")

    def test_a_tended_and_cleaned_board(self):
        self.begin(SMALL)
        for number in range(12):
            self.publish_step(2 + number % 2)
            if number % 3 == 2:
                harness.run("board", "tend", *self.run_options, "--dir", self.dir / "tend",
                            "--skip-every", 2, "--most-between", 4, "--anchor-at", 1000)
                self.clean(0)
                for rank in range(number // 3 % 3):
                    shutil.rmtree(self.ranks.baseline(rank), ignore_errors=True)
        self.assert_head("fresh")
        harness.run("verify", *self.run_options, "--deep", "--rebuild", self.head())

    def test_an_anchor_that_was_added_is_where_baselines_come_from(self):
        self.begin(SMALL)
        self.publish_step(3)
        self.publish_step(3)
        harness.run("board", "anchor", 3, self.dir / "checkpoint", *self.run_options)
        harness.run("board", "gc", *self.run_options, "--keep-last", 1, "--keep-younger-h", 0, "--apply")
        for rank in range(3):
            shutil.rmtree(self.ranks.baseline(rank))
        self.publish_step(3)

    def test_leftovers_go_after_the_grace_period_and_parts_stay(self):
        self.begin(SMALL)
        self.publish_step(3)
        self.next_step(3)
        self.assertEqual([done.returncode for done in shares.finish_all(
            [self.start(rank, 3, deadline_s=rank_runs.SHORT_S) for rank in (0, 1)])], [6, 6])
        left = self.attempt()
        self.assertTrue((left / "claim-00001.json").exists())
        self.assertGreater(self.clean(1)["leftovers"], 0)
        self.assertTrue(left.exists())
        self.assert_published(self.publish(3))
        self.clean(0)
        self.clean(0)
        self.assertFalse((left / "claim-00001.json").exists())
        self.assert_head("fresh")
        self.publish_step(3)
        names = {path.name for path in self.attempt().iterdir()}
        self.assertEqual(names, {"verdict.json"})
        harness.run("verify", *self.run_options, "--deep", "--rebuild", self.head())


if __name__ == "__main__":
    unittest.main()
