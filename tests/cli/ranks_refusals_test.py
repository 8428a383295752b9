"""What ranks must refuse together: other models, rows that are missing or held twice, ranks of other
attempts, several leads, broken shares. The log stays as it was."""

import contextlib
import os
import shutil
import signal
import unittest

import harness
import rank_runs
import runs
import shares
from rank_runs import SHORT_S, SMALL, RanksTest
from waiting import wait_until


class RefusalTest(RanksTest):

    def setUp(self):
        super().setUp()
        self.begin(SMALL)

    @contextlib.contextmanager
    def log_stays(self):
        before = self.log()
        yield
        self.assertEqual(self.log(), before)
        harness.run("verify", *self.run_options, "--deep")

    def ended(self, processes, codes, *named):
        """They have ended, each with its code and one line; every one's line has all of `named`."""
        for done, code in zip(shares.finish_all(processes), codes, strict=True):
            message = runs.assert_one_line(self, done, code)
            for name in named:
                self.assertIn(str(name), message)


class ModelsTest(RefusalTest):
    """Each test: three ranks, one of them with something else."""

    def refused(self, *named):
        """The lead last: a rank that comes when all is over can only wait for the next call."""
        with self.log_stays():
            self.ended([self.start(rank, 3) for rank in (2, 1, 0)], [2] * 3, *named)

    def test_another_model(self):
        for change, *named in [({"more": ("BF16", [9, 4])}, "rank 1", "more"),
                               ({"a": ("F16", [60, 50])}, "rank 1", "tensor a", "F16", "BF16"),
                               ({"a": ("BF16", [60, 51])}, "rank 1", "tensor a", "[60,51]"),
                               ({"a": ("BF16", [61, 50])}, "rank 1", "tensor a", "[61,50]"),
                               ({"a": ("BF16", [60, 5, 10])}, "rank 1", "tensor a", "[60,5,10]"),
                               ({"scalar": ("F32", [1])}, "rank 1", "tensor scalar", "F32 [1]")]:
            with self.subTest(change):
                self.next_step(3)
                other = shares.Model(SMALL | change, self.random)
                files = shares.by_rows(other, 3)[1]
                if "scalar" in change:
                    files[0]["scalar"] = None
                other.write_share(self.ranks.share(1), files)
                self.refused(*named)

    def test_every_rank_has_another_model(self):
        self.model = shares.Model(SMALL | {"a": ("BF16", [50, 60])}, self.random)
        self.next_step(3)
        with self.log_stays():
            done = shares.finish_all([self.start(rank, 3, deadline_s=SHORT_S) for rank in range(3)])
            self.assertEqual(done[0].returncode, 2)
            for process in done:  # who comes when the lead has refused waits for another call
                self.assertIn("tensor a" if process.returncode == 2 else "it is over", process.stderr)

    def test_rows_that_nobody_holds(self):
        for tensor, rows, *named in [("a", (20, 39), "rows 39 to 39 of 60"),
                                     ("a", (21, 40), "rows 20 to 20 of 60"),
                                     ("b", (11, 11), "rows 11 to 21 of 31"), ("a", None, "rows 20 to 39")]:
            with self.subTest(tensor, rows=rows):
                self.next_step(3)
                [held] = shares.by_rows(self.model, 3)[1]
                del held[tensor]
                if rows:
                    held[tensor] = rows
                self.model.write_share(self.ranks.share(1), [held])
                self.refused(f"tensor {tensor}", *named)

    def test_a_scalar_that_nobody_or_everybody_holds(self):
        for holders, named in ([], "no rank holds"), ([0, 1, 2], "both hold row 0"):
            with self.subTest(holders):
                self.next_step(3)
                for rank in range(3):
                    [held] = shares.by_rows(self.model, 3)[rank]
                    held.pop("scalar", None)
                    self.model.write_share(self.ranks.share(rank),
                                           [held | ({"scalar": None} if rank in holders else {})])
                self.refused("tensor scalar", named)

    def test_rows_that_are_held_twice(self):
        for more, *named in [((19, 20), "rank 0 and rank 1", "row 19"),
                             ((40, 41), "rank 1 and rank 2", "row 40"),
                             ((30, 31), "rank 1 and rank 1", "row 30"), (None, "rank 0", "row 0")]:
            with self.subTest(more):
                self.next_step(3)
                files = [*shares.by_rows(self.model, 3)[1], {"a": more}]
                self.model.write_share(self.ranks.share(1), files)
                self.refused("tensor a", *named)

    def test_the_next_try_of_the_same_step_succeeds(self):
        self.next_step(3)
        self.model.write_share(self.ranks.share(1), [{}])
        self.refused("no rank holds")
        self.ranks.write_shares(self.model, shares.by_rows(self.model, 3))
        late = [self.start(rank, 3) for rank in (1, 2)]  # before there is a new call
        wait_until((self.ranks.baseline(2) / "lock").exists, "rank 2 has begun")
        self.assert_published(shares.finish_all([*late, self.start(0, 3)]))
        self.assert_head()


class CompanyTest(RefusalTest):
    """Ranks that are too many, too few, too old, or of another mind."""

    def setUp(self):
        super().setUp()
        self.next_step(3)

    def all_but(self, *missing, deadline_s=SHORT_S):
        return [self.start(rank, 3, deadline_s=deadline_s) for rank in range(3) if rank not in missing]

    def test_a_missing_rank(self):
        for missing in range(3):
            with self.subTest(missing), self.log_stays():
                self.ended(self.all_but(missing), [6, 6])

    def test_the_lead_names_who_is_missing(self):
        with self.log_stays():
            self.ended([self.start(0, 30, deadline_s=SHORT_S)], [6],
                       "rank 1, 2, 3, 4, 5, 6, 7, 8 and 21 more")

    def test_another_number_of_ranks(self):
        with self.log_stays():
            odd = self.start(2, 4, deadline_s=SHORT_S)
            self.ended([*self.all_but(2)], [6, 6])
            self.ended([odd], [6], "4 ranks", "3 ranks")

    def test_another_step(self):
        with self.log_stays():
            odd = self.start(2, 3, step=77, deadline_s=SHORT_S)
            self.ended(self.all_but(2), [6, 6])
            self.ended([odd], [6], "step 77", f"step {self.step}")

    def test_two_processes_as_one_rank(self):
        first = [self.start(rank, 3) for rank in (0, 1)]
        self.await_object("claim-00001.json")
        second = self.start(1, 3, baseline=self.dir / "second", deadline_s=SHORT_S)
        with self.log_stays():
            self.ended([second], [6], "it is over")
        self.assert_published(shares.finish_all([*first, self.start(2, 3)]))
        self.assert_head()

    def test_two_processes_as_one_rank_at_a_time(self):
        for number in range(3):
            processes = [self.start(rank, 3, deadline_s=6) for rank in range(3)]
            processes.append(self.start(1, 3, baseline=self.dir / f"second-{number}", deadline_s=6))
            before = self.head()
            codes = [done.returncode for done in shares.finish_all(processes)]
            self.assertTrue(set(codes) <= {0, 4, 6}, codes)
            self.assertEqual(self.head() - before, codes[0] == 0, codes)
            if codes[0] == 0:
                self.assertEqual(sorted(codes)[:3], [0, 0, 0])
                self.assert_head()
            self.next_step(3)

    def test_a_rank_of_an_older_attempt(self):
        old = self.start(1, 3, deadline_s=8)
        others = self.all_but(1, 2, deadline_s=4)
        self.await_object("claim-00001.json")
        old.send_signal(signal.SIGSTOP)
        others.append(self.start(2, 3, deadline_s=4))
        with self.log_stays():
            self.ended(others, [6, 6])
        new = [self.start(0, 3), self.start(1, 3, baseline=self.dir / "new"), self.start(2, 3)]
        self.assert_published(shares.finish_all(new))
        with self.log_stays():
            old.send_signal(signal.SIGCONT)
            self.assertIn(shares.finish(old).returncode, (4, 6))
        self.assert_head()
        self.ranks.write_shares(self.model, shares.by_rows(self.model, 3))
        shutil.rmtree(self.ranks.baseline(1))
        self.publish_step(3)

    def test_a_rank_of_an_older_attempt_joins_the_next_one(self):
        old = self.start(1, 3)
        others = self.all_but(1, 2, deadline_s=4)
        self.await_object("claim-00001.json")
        old.send_signal(signal.SIGSTOP)
        with self.log_stays():
            self.ended(others, [6])
        first = self.attempt()
        new = [self.start(rank, 3) for rank in (0, 2)]
        wait_until(lambda: self.attempt() != first, "a new call")
        old.send_signal(signal.SIGCONT)
        self.assert_published(shares.finish_all([*new, old]))
        self.assert_head()

    def test_a_lead_that_dies_is_replaced_and_the_ranks_join_the_new_one(self):
        for moment in ("outline", "claim-00002.json", "slices-00001.json", "receipt-00002.json"):
            lead, others = self.start(0, 3), [self.start(rank, 3) for rank in (1, 2)]
            head = self.head()
            wait_until(lambda: self.head() > head or self.is_there(moment), moment)  # noqa: B023
            lead.kill()
            lead.wait()
            if self.head() == head:
                others.append(self.start(0, 3))
            self.assert_published(shares.finish_all(others))
            self.assert_head()
            self.next_step(3)

    def is_there(self, name):
        return self.attempt() != self.attempt_before and (self.attempt() / name).exists()

    def test_two_leads(self):
        old = self.start(0, 3)
        self.await_object("claim-00000.json")
        first = self.attempt()
        others = [self.start(rank, 3) for rank in (1,)]
        self.await_object("claim-00001.json")
        old.send_signal(signal.SIGSTOP)
        new = self.start(0, 3, baseline=self.dir / "second")
        wait_until(lambda: self.attempt() != first, "the second lead's call")
        others.append(self.start(2, 3))
        self.assert_published(shares.finish_all([new, *others]))
        with self.log_stays():
            old.send_signal(signal.SIGCONT)
            self.ended([old], [4], "another lead")
        self.assert_head()

    def test_two_leads_at_a_time(self):
        for number in range(3):
            before = self.head()
            leads = [self.start(0, 3, deadline_s=6),
                     self.start(0, 3, deadline_s=6, baseline=self.dir / f"second-{number}")]
            others = [self.start(rank, 3, deadline_s=6) for rank in (1, 2)]
            codes = [done.returncode for done in shares.finish_all(leads)]
            follow = [done.returncode for done in shares.finish_all(others)]
            self.assertIn(sorted(codes), ([0, 4], [4, 4], [4, 6]), follow)
            self.assertEqual(self.head() - before, codes.count(0))
            if 0 in codes:
                self.assertEqual(follow, [0, 0])
                self.assert_head()
            self.next_step(3)

    def test_a_version_of_one_process_in_between(self):
        """Someone publishes the run's next version while ranks meet: theirs is not made."""
        lead = self.start(0, 3)
        self.await_object("claim-00000.json")
        lead.send_signal(signal.SIGSTOP)
        others = [self.start(rank, 3) for rank in (1, 2)]
        self.await_object("claim-00001.json")
        self.await_object("claim-00002.json")
        self.publish_whole()
        with self.log_stays():
            lead.send_signal(signal.SIGCONT)
            self.ended([lead, *others], [4] * 3)

    def test_a_run_without_a_version(self):
        options = ["publish", self.ranks.share(0), "--board", self.board, "--run", "none", "--ranks", 2,
                   "--step", 1, "--rank-deadline-s", 1, "--baseline", self.dir / "fresh"]
        runs.refused(self, 2, [*options, "--rank", 0], "run none", "no version")
        runs.refused(self, 6, [*options, "--rank", 1], "run none", "there is none")

    def test_unsigned_ranks_and_a_lead_that_trusts_keys(self):
        harness.run("key", "new", self.dir / "key")
        self.use_board(self.dir / "signed")
        self.publish_options = ["--sign-key", self.dir / "key"]
        self.publish_whole()
        trust = ["--trust", self.dir / "key.pub"]
        with self.log_stays():
            lead = self.start(0, 2, *trust)
            self.await_object("claim-00000.json")
            self.publish_options = []
            self.ended([lead, self.start(1, 2)], [5, 5], "claim-00001.json", "not signed")
        with self.log_stays():
            lead = self.start(0, 2, deadline_s=SHORT_S)
            self.ended([lead, self.start(1, 2, *trust, deadline_s=SHORT_S)], [6, 6])


class UsageTest(RefusalTest):

    def setUp(self):
        super().setUp()
        self.next_step(2)

    def usage(self, *options, share=None, baseline=None):
        return ["publish", share or self.ranks.share(1), *self.run_options, "--baseline",
                baseline or self.dir / "fresh", "--rank-deadline-s", 1, *options]

    def test_options(self):
        for options, named in [(("--rank", 0, "--ranks", 2), "--step"),
                               (("--rank", 2, "--ranks", 2, "--step", 2), "rank 2 of 2"),
                               (("--rank", 0, "--ranks", 0, "--step", 2), "rank 0 of 0"),
                               (("--rank", 0, "--ranks", 65537, "--step", 2), "65536")]:
            with self.subTest(options):
                runs.refused(self, 2, self.usage(*options), named)
        for options in [("--rank", 0), ("--ranks", 2, "--step", 2), ("--rank", -1, "--ranks", 2),
                        ("--rank", "x", "--ranks", 2, "--step", 1)]:
            with self.subTest(options):
                runs.refused(self, 2, self.usage(*options), expect_line=r".*--rank")

    def test_a_baseline_in_use(self):
        waiting = self.start(1, 2, deadline_s=60)
        wait_until((self.ranks.baseline(1) / "lock").exists, "rank 1 has begun")
        place = ("--rank", 1, "--ranks", 2, "--step", 2)
        wait_until(lambda: runs.run_with({}, *self.usage(*place, baseline=self.ranks.baseline(1))
                                         ).returncode == 4, "the baseline is in use")
        runs.refused(self, 4, self.usage(*place, baseline=self.ranks.baseline(1)), "baseline-1")
        self.assert_published(shares.finish_all([self.start(0, 2), waiting]))

    def test_a_baseline_that_is_none(self):
        place = ("--rank", 1, "--ranks", 2, "--step", 2)
        foreign = self.dir / "foreign"
        foreign.mkdir()
        (foreign / "letter.txt").write_text("mine")
        runs.refused(self, 2, self.usage(*place, baseline=foreign), foreign, "no rank's baseline")
        self.assertEqual([path.name for path in foreign.iterdir()], ["letter.txt"])
        runs.refused(self, 2, self.usage(*place, baseline=self.dir / "whole"), "whole")
        runs.refused(self, 2, self.usage(*place, baseline=self.ranks.share(1)), "share-1")
        runs.refused(self, 2, self.usage(*place, baseline=self.dir / "checkpoint" / "config.json"))
        self.assert_published(self.publish(2))
        runs.refused(self, 2, ["publish", self.dir / "checkpoint", *self.run_options, "--baseline",
                               self.ranks.baseline(0)], "baseline-0")

    def test_broken_shares(self):
        content = bytes(2 * 40)
        header = {"a": ("BF16", [4, 10], content)}
        for rows, named in [("{", "not JSON"), ("[]", "isthmus.rows"), ('{"b":[0,4]}', "b"),
                            ('{"a":[1,4]}', "4 rows from row 1"), ('{"a":[4,4]}', "row 4"),
                            ('{"a":[0]}', "first row"), ('{"a":[0,4,4]}', "first row"),
                            ('{"a":[-1,9]}', "a"), ('{"a":[0.5,9]}', "a"), ('{"a":"0"}', "a"),
                            ('{"a":[18446744073709551615,18446744073709551615]}', "a"),
                            ('{"a":[0,18446744073709551615]}', "a")]:
            with self.subTest(rows):
                self.broken(header, {"isthmus.rows": rows}, 5, named)
        self.broken({"a": ("BF16", [], b"xx")}, {"isthmus.rows": '{"a":[0,1]}'}, 5, "no rows")
        self.broken({"a": ("BF17", [40], content)}, None, 5, "BF17")
        self.broken({"a": ("BF16", [41], content)}, None, 5, "share.safetensors")

    def broken(self, tensors, metadata, code, *named):
        share = self.dir / "broken"
        shares.write_safetensors(share / "share.safetensors", tensors, metadata)
        place = ("--rank", 1, "--ranks", 2, "--step", 2)
        runs.refused(self, code, self.usage(*place, share=share), "share.safetensors", *named)

    def test_shares_that_are_not_there(self):
        place = ("--rank", 1, "--ranks", 2, "--step", 2)
        runs.refused(self, 3, self.usage(*place, share=self.dir / "none"), "none")
        (self.dir / "empty").mkdir()
        (self.dir / "empty" / ".hidden.safetensors").write_bytes(b"x")
        runs.refused(self, 3, self.usage(*place, share=self.dir / "empty"), "no *.safetensors")
        (self.dir / "empty" / "cut.safetensors").write_bytes(bytes(5))
        runs.refused(self, 5, self.usage(*place, share=self.dir / "empty"), "cut.safetensors")

    def test_a_share_that_changes_meanwhile(self):
        file = self.ranks.share(1) / "share-0.safetensors"
        whole = file.read_bytes()

        def touch():
            os.utime(file)

        def cut():
            os.truncate(file, len(whole) // 2)

        for change in (touch, cut, file.unlink):
            with self.subTest(change):
                file.write_bytes(whole)
                shutil.rmtree(self.ranks.baseline(1), ignore_errors=True)
                rank = self.start(1, 2)
                wait_until((self.ranks.baseline(1) / "rank-baseline").exists, "the share is open")
                change()
                with self.log_stays():
                    code = 3 if change == file.unlink else 4
                    self.ended([self.start(0, 2), rank], [code, code], "share-0.safetensors")
        file.write_bytes(whole)
        self.assert_published(self.publish(2))
        self.assert_head()


if __name__ == "__main__":
    unittest.main()
