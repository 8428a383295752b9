"""Objects of an attempt that somebody altered, removed or forged on the board while ranks publish: what
the ranks read is checked, and the log stays as it was."""

import contextlib
import hashlib
import json
import re
import signal
import unittest

import harness
import rank_runs
import runs
import shares
from rank_runs import SMALL, RanksTest

RANKS = 2
LEAD, OTHER = range(RANKS)
ZERO = "sha256:" + "0" * 64


class TamperingTest(RanksTest):
    """Two ranks, each of which owns a chunk that the other one has rows of."""

    def setUp(self):
        super().setUp()
        self.begin(SMALL)
        self.next_step(RANKS)

    @contextlib.contextmanager
    def log_stays(self):
        before = self.log()
        yield
        self.assertEqual(self.log(), before)
        harness.run("verify", *self.run_options, "--deep")

    def ended(self, processes, codes, *named):
        for done, code in zip(shares.finish_all(processes), codes, strict=True):
            message = runs.assert_one_line(self, done, code)
            for name in named:
                self.assertIn(str(name), message)

    def claim(self, rank):
        """What a rank would claim."""
        tensors = []
        for held in shares.by_rows(self.model, RANKS)[rank]:
            for name, rows in held.items():
                dtype, shape = self.model.shapes[name]
                first, end = rows or (0, shape[0] if shape else 1)
                tensors.append({"name": name, "dtype": dtype, "shape": shape, "first_row": first,
                                "rows": end - first})
        return {"format": 1, "tensors": tensors}

    def claimed(self):
        """A lead, stopped, and the other rank, which has claimed."""
        lead = self.start(LEAD, RANKS)
        self.await_object("claim-00000.json")
        lead.send_signal(signal.SIGSTOP)
        other = self.start(OTHER, RANKS)
        self.await_object("claim-00001.json")
        return lead, other

    def planned_lead(self, **options):
        """A lead that has a plan and waits for the other rank, which is not there yet: the test claimed
        in its name."""
        lead = self.start(LEAD, RANKS, **options)
        self.await_object("claim-00000.json")
        claim = self.attempt() / "claim-00001.json"
        rank_runs.replace(claim, json.dumps(self.claim(OTHER)).encode())
        self.await_object("plan.json")
        claim.unlink()
        return lead

    def stopped_lead(self):
        """As planned_lead, stopped when it has sent its slices."""
        lead = self.planned_lead()
        self.await_object("slices-00000.json")
        lead.send_signal(signal.SIGSTOP)
        return lead

    def publishes_after_all(self):
        self.assert_published(self.publish(RANKS))
        self.assert_head()

    def alter(self, path, change):
        """`change`: of the object that the JSON text is, in place; or bytes that replace it."""
        if isinstance(change, bytes):
            rank_runs.replace(path, change)
            return
        found = json.loads(path.read_text())
        change(found)
        rank_runs.replace(path, json.dumps(found).encode())


class CallTest(TamperingTest):

    def test_a_call_that_is_none(self):
        call = self.board / "runs/r/call.json"
        for text in ("", "{", '{"format":1}', '{"format":1,"version":2,"attempt":"../../..",'
                     f'"step":2,"ranks":2,"outline":"{ZERO}"}}'):
            with self.subTest(text):
                call.write_text(text)
                other = self.start(OTHER, RANKS)
                self.assert_published([*shares.finish_all([self.start(LEAD, RANKS), other])])
                self.assert_head()
                self.next_step(RANKS)

    def test_a_call_of_a_newer_format(self):
        (self.board / "runs/r/call.json").write_text('{"format":2}')
        for done in shares.finish_all([self.start(OTHER, RANKS)]):
            self.assertIn("format 2", done.stderr)
        lead = self.start(LEAD, RANKS)  # whose call replaces it
        self.await_object("claim-00000.json")
        self.assert_published(shares.finish_all([lead, self.start(OTHER, RANKS)]))
        self.assert_head()

    def test_a_call_that_goes_away(self):
        for content in (None, b"", b"{"):
            with self.subTest(content), self.log_stays():
                lead = self.start(LEAD, RANKS, deadline_s=rank_runs.SHORT_S)
                self.await_object("claim-00000.json")
                call = self.board / "runs/r/call.json"
                if content is None:
                    call.unlink()
                else:
                    rank_runs.replace(call, content)
                self.ended([lead, self.start(OTHER, RANKS, deadline_s=rank_runs.SHORT_S)], [6, 6])
        self.publishes_after_all()

    def test_a_call_that_is_replaced(self):
        for more in ({"attempt": "0" * 16}, {"ranks": 3}, {"step": 5}, {"outline": ZERO}):
            with self.subTest(more), self.log_stays():
                lead = self.start(LEAD, RANKS)
                self.await_object("claim-00000.json")
                self.alter(self.board / "runs/r/call.json", lambda call: call.update(more))  # noqa: B023
                self.ended([lead], [4], "another lead")
        self.publishes_after_all()

    def test_an_outline_that_was_altered(self):
        with self.log_stays():
            lead = self.start(LEAD, RANKS, deadline_s=rank_runs.SHORT_S)
            self.await_object("claim-00000.json")
            outline = self.attempt() / "outline"
            outline.write_bytes(outline.read_bytes().replace(b"norm", b"NORM"))
            self.ended([lead, self.start(OTHER, RANKS, deadline_s=rank_runs.SHORT_S)], [6, 6])
        self.publishes_after_all()


class PlanTest(TamperingTest):

    def test_an_altered_claim(self):
        def rows(claim):
            claim["tensors"][0]["rows"] -= 1

        def name(claim):
            claim["tensors"][0]["name"] = "z"

        def much(claim):
            claim["tensors"] *= 3

        for change, code, named in [(rows, 2, "no rank holds"), (name, 2, "no tensor z"),
                                    (much, 2, "both hold"), (b"", 5, "claim-00001"), (b"{", 5, "claim-00001"),
                                    (b'{"format":2}', 2, "format 2"), (b'{"format":1,"tensors":[1]}', 5, "")]:
            with self.subTest(change), self.log_stays():
                lead, other = self.claimed()
                self.alter(self.attempt() / "claim-00001.json", change)
                lead.send_signal(signal.SIGCONT)
                self.ended([lead, other], [code] * 2, named)
        self.publishes_after_all()

    def test_an_altered_plan(self):
        def set_number(place, value):
            def change(plan):
                plan["holdings"][place] = value
            return change

        def of_lead(plan):  # the lead's rows of two tensors of one kind, in one holding less
            at = [i for i in range(0, len(plan["holdings"]), 4) if plan["holdings"][i] == LEAD][0]
            plan["holdings"][at + 3] -= 1

        def without_other(plan):
            at = [i for i in range(0, len(plan["holdings"]), 4) if plan["holdings"][i] == OTHER][0]
            del plan["holdings"][at:at + 4]

        def swapped(plan):
            plan["holdings"][0::4] = [1 - rank for rank in plan["holdings"][0::4]]

        def spread(plan):  # another text, the same meaning
            plan["more"] = 1

        for change, code, *named in [
                (of_lead, 2), (without_other, 5, "rows"), (swapped, 5, "rows"), (spread, 5, "another plan"),
                (set_number(0, 2), 2), (set_number(1, 99), 2), (set_number(2, (1 << 64) - 1), 2),
                (set_number(3, (1 << 64) - 1), 2), (lambda plan: plan["holdings"].pop(), 5),
                (b"", 5), (b"{", 5), (b'{"format":1}', 5)]:
            with self.subTest(change), self.log_stays():
                lead = self.planned_lead()
                self.alter(self.attempt() / "plan.json", change)
                for done in shares.finish_all([lead, self.start(OTHER, RANKS)]):
                    message = runs.assert_one_line(self, done, code)
                    for name in named:
                        self.assertIn(name, message)
        self.publishes_after_all()


class SlicesTest(TamperingTest):

    def part(self):
        return self.attempt() / "slices-00001-00000.part"

    def test_an_altered_part(self):
        for change in (lambda content: content[:-1], lambda content: content + b"x", lambda content: b"",
                       lambda content: content[:50] + bytes([content[50] ^ 1]) + content[51:], None):
            with self.log_stays():
                lead = self.stopped_lead()
                other = self.start(OTHER, RANKS)
                self.await_object("slices-00001.json")
                if change:
                    self.part().write_bytes(change(self.part().read_bytes()))
                else:
                    self.part().unlink()
                lead.send_signal(signal.SIGCONT)
                self.ended([lead, other], [5, 5], "slices-00001-00000.part")
        self.publishes_after_all()

    def with_replaced(self, content):
        """A publish in whose attempt the other rank seems to have sent this."""
        lead = self.stopped_lead()
        other = self.start(OTHER, RANKS)
        said = self.await_object("slices-00001.json")
        rank_runs.replace(self.part(), content)
        self.alter(said, lambda sent: sent["owners"][0].update(
            bytes=len(content), sha256="sha256:" + hashlib.sha256(content).hexdigest()))
        lead.send_signal(signal.SIGCONT)
        return [lead, other]

    def test_what_is_no_part(self):
        for content in (b"", b"x", bytes(1000)):
            with self.subTest(content), self.log_stays():
                self.ended(self.with_replaced(content), [5, 5])
        self.publishes_after_all()

    def test_a_part_of_other_old_bytes_rebuilds_all_baselines(self):
        patch = self.dir / "foreign.patch"
        before = self.model.write_checkpoint(self.dir / "before")
        self.next_step(RANKS)
        harness.run("diff", before, self.model.write_checkpoint(self.dir / "after"), "-o", patch)
        done = shares.finish_all(self.with_replaced(patch.read_bytes()))
        self.assert_published(done)
        self.assertTrue(all("built anew" in process.stderr for process in done))
        self.assert_head()

    def test_what_was_said_is_altered(self):
        for change in (lambda sent: sent.update(owners=[]), lambda sent: sent["owners"][0].update(rank=1),
                       lambda sent: sent["owners"][0].update(bytes=(1 << 64) - 1),
                       lambda sent: sent["owners"][0].update(sha256=ZERO), b"", b"{", b'{"format":1}'):
            with self.subTest(change), self.log_stays():
                lead = self.stopped_lead()
                other = self.start(OTHER, RANKS)
                self.alter(self.await_object("slices-00001.json"), change)
                lead.send_signal(signal.SIGCONT)
                self.ended([lead, other], [5, 5])
        self.publishes_after_all()


class ReceiptTest(TamperingTest):

    def with_altered(self, change):
        """A publish in whose attempt the other rank's receipt is altered before the lead reads it."""
        lead = self.stopped_lead()
        other = self.start(OTHER, RANKS)
        self.alter(self.await_object("receipt-00001.json"), change)
        lead.send_signal(signal.SIGCONT)
        return [lead, other]

    def test_one_that_does_not_fit_the_plan(self):
        for change in [lambda receipt: receipt.update(plan=ZERO), lambda receipt: receipt.update(chunks=[]),
                       lambda receipt: receipt["chunks"].append(receipt["chunks"][0]),
                       lambda receipt: receipt["chunks"][0].update(number=0),
                       lambda receipt: receipt["chunks"][0].update(number=1 << 40),
                       lambda receipt: receipt["chunks"][0].update(before=""),
                       lambda receipt: receipt["chunks"][0].update(before="00"),
                       lambda receipt: receipt["chunks"][0].update(before="x" * 64),
                       lambda receipt: receipt["chunks"][0].update(changed=1 << 30),
                       lambda receipt: receipt["chunks"][0].update(after="0" * 32)]:
            with self.log_stays():
                for done in shares.finish_all(self.with_altered(change)):
                    self.assertIn(done.returncode, (2, 5), done.stderr)
        self.publishes_after_all()

    def test_one_of_other_old_bytes_rebuilds_all_baselines(self):
        def change(receipt):
            before = receipt["chunks"][0]["before"]
            receipt["chunks"][0]["before"] = ("1" if before[0] == "0" else "0") + before[1:]

        done = shares.finish_all(self.with_altered(change))
        self.assert_published(done)
        self.assertTrue(all("built anew" in process.stderr for process in done))
        self.assert_head()

    def test_one_with_parts_that_no_reader_would_take(self):
        def part(**more):
            return lambda receipt: receipt["payload"]["parts"][0].update(more)

        def bigger(receipt):
            receipt["payload"]["parts"] *= 2
            for item in receipt["payload"]["parts"]:
                item["bytes"] = 1 << 63

        for change in [part(key="runs/s/data/1/0123456789abcdef/00000-a"), part(key="runs/r/log/0000000001.json"),
                       part(key="runs/r/data/../log/0000000001.json"), part(path="a"), part(bytes=-1),
                       part(sha256="x"), bigger, lambda receipt: receipt["payload"].update(kind="anchor"),
                       lambda receipt: receipt["payload"].update(base=2),
                       lambda receipt: receipt["payload"].update(base=None),
                       lambda receipt: receipt.pop("payload"), b"", b"{", b"[]", b'{"format":1}']:
            with self.subTest(change), self.log_stays():
                self.ended(self.with_altered(change), [5, 5])
        self.publishes_after_all()

    def test_sums_of_parts_that_no_reader_would_take(self):
        """Each receipt is allowed, all together are not."""
        def change(receipt):
            receipt["payload"]["parts"][0]["bytes"] = (1 << 64) - 1

        with self.log_stays():
            for done in shares.finish_all(self.with_altered(change)):
                self.assertNotEqual(done.returncode, 0)
        self.publishes_after_all()


class VerdictTest(TamperingTest):

    def test_a_forged_verdict(self):
        refusal = {"format": 1, "code": "corrupt", "reason": "forged", "baselines": 0}
        for text, codes in [(json.dumps({"format": 1, "refused": refusal}), (5, 5)),
                            (json.dumps({"format": 1, "digest": ZERO}), (4, 6)), ("{", (5, 5)), ("", (5, 5))]:
            with self.subTest(text), self.log_stays():
                lead = self.stopped_lead()
                other = self.start(OTHER, RANKS, deadline_s=6)
                self.await_object("claim-00001.json")
                rank_runs.replace(self.attempt() / "verdict.json", text.encode())
                lead.send_signal(signal.SIGCONT)
                for done, code in zip(shares.finish_all([lead, other]), codes, strict=True):
                    self.assertEqual(done.returncode, code, done.stderr)
        self.publishes_after_all()

    def test_a_forged_failure(self):
        for text, named in [(json.dumps({"format": 1, "code": "conflict", "reason": "forged", "baselines": 0}),
                             "rank 1 failed: forged"), ("{", "failed-00001.json"),
                            (json.dumps({"format": 1, "code": "x", "reason": "", "baselines": 0}), "failed-0")]:
            with self.subTest(text), self.log_stays():
                lead = self.planned_lead()
                (self.attempt() / "failed-00001.json").write_text(text)
                done = shares.finish(lead)
                self.assertIn(done.returncode, (4, 5))
                self.assertIn(named, done.stderr)
        self.publishes_after_all()


class SignedTest(TamperingTest):
    """Where all sign and trust, nothing that was altered is believed."""

    def setUp(self):
        super().setUp()
        harness.run("key", "new", self.dir / "key")
        self.use_board(self.dir / "signed")
        self.read_options = ["--trust", self.dir / "key.pub"]
        self.publish_options = ["--sign-key", self.dir / "key", *self.read_options]
        self.publish_whole()
        self.next_step(RANKS)

    def test_altered_objects(self):
        def whitespace(text):
            return text.replace(",", ", ", 1)

        def unsigned(text):
            return re.sub(r',"signature":\{[^}]*\}', "", text)

        for change in (whitespace, unsigned):
            with self.subTest(change), self.log_stays():
                lead, other = self.claimed()
                claim = self.attempt() / "claim-00001.json"
                rank_runs.replace(claim, change(claim.read_text()).encode())
                lead.send_signal(signal.SIGCONT)
                self.ended([lead, other], [5, 5], "claim-00001.json")
        self.publishes_after_all()

    def test_a_call_that_nobody_signed_is_none(self):
        with self.log_stays():
            lead = self.start(LEAD, RANKS, deadline_s=rank_runs.SHORT_S)
            self.await_object("claim-00000.json")
            call = self.board / "runs/r/call.json"
            call.write_text(re.sub(r',"signature":\{[^}]*\}', "", call.read_text()))
            self.ended([lead, self.start(OTHER, RANKS, deadline_s=rank_runs.SHORT_S)], [6, 6])
        self.publishes_after_all()

    def test_an_object_of_another_attempt(self):
        with self.log_stays():
            lead, other = self.claimed()
            old = (self.attempt() / "claim-00001.json").read_bytes()
            for process in (lead, other):
                process.kill()
                process.communicate()
            lead, other = self.claimed()
            rank_runs.replace(self.attempt() / "claim-00001.json", old)
            lead.send_signal(signal.SIGCONT)
            self.ended([lead, other], [5, 5], "claim-00001.json", "another place")
        self.publishes_after_all()


if __name__ == "__main__":
    unittest.main()
