#!/usr/bin/env python3
"""The plug-in in the real vLLM: switches by what changed, refusals, and what a failure leaves."""

import atexit
import functools
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import unittest

import island
import make_qwen3
import numpy as np
import plugin_engine
from plugin_engine import changes_files

SEED = int(os.environ.get("ISTHMUS_TEST_SEED", random.randrange(1 << 32)))
SWITCHES = int(os.environ.get("ISTHMUS_TEST_SWITCHES", 50))
BAD_DIGEST = "0" * 64
TENSOR = "model.layers.0.mlp.up_proj.weight"  # one that every step changes


class Fixture:
    """Versions of one model, and an engine with the plug-in that was started on the first; another
    one, freshly started on the last, says what that answers."""

    def __init__(self, versions, **model):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-plugin-")
        atexit.register(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        trainer = make_qwen3.Trainer(SEED, **model)
        self.checkpoints = [trainer.save(self.dir / "step-0")]
        while len(self.checkpoints) < versions:
            trainer.step()
            self.checkpoints.append(trainer.save(self.dir / f"step-{trainer.step_count}"))
        self.digests = [changes_files.digest(path) for path in self.checkpoints]
        self.engine, fresh = self._start(0), self._start(versions - 1)
        self.engine.wait_until_up()
        fresh.wait_until_up()
        self.first, self.last = island.ask(self.engine.client), island.ask(fresh.client)
        fresh.stop()

    def _start(self, version):
        engine = plugin_engine.Engine(self.checkpoints[version], self.dir / f"package-{version}",
                                      self.dir / f"vllm-{version}.log")
        atexit.register(engine.kill)
        return engine

    @functools.cache
    def changes(self, old, new):
        return changes_files.make(self.dir / f"{old}-to-{new}.safetensors",
                                  self.checkpoints[old], self.checkpoints[new])

    def switch(self, old, new, ahead=False):
        self.engine.switch(self.changes(old, new), self.digests[old], self.digests[new], ahead)


@functools.cache
def dense():
    """Tied embeddings: one write must reach the output matrix too. truth, sums: of all versions,
    after a full load of each."""
    fixture, engine = Fixture(4, tied=True), None
    engine = fixture.engine
    fixture.truth, fixture.sums = [], []
    for checkpoint in fixture.checkpoints:
        engine.call("/pause?mode=keep")
        engine.reload(checkpoint)
        engine.call("/resume")
        fixture.truth.append(island.ask(engine.client))
        fixture.sums.append(engine.checksums())
    assert (fixture.truth[0], fixture.truth[-1]) == (fixture.first, fixture.last)
    assert len({str(said) for said in fixture.truth}) == 4, "versions look alike"
    return fixture


@functools.cache
def mixture():
    """vLLM 0.32 cannot reload experts on a CPU: fresh engines alone say the truth."""
    return Fixture(2, moe=True, tied=False)


def setUpModule():
    print(f"ISTHMUS_TEST_SEED={SEED}", file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that engines end with this process


class DenseTest(unittest.TestCase):
    """Each test begins with version 0, loaded in full and known to the plug-in."""

    def setUp(self):
        self.fixture = dense()
        self.engine = self.fixture.engine
        self.engine.fail_write(None)
        self.engine.close_session()
        self.engine.reload(self.fixture.checkpoints[0])
        self.engine.init(self.fixture.checkpoints[0])

    def assert_holds(self, version):
        self.assertEqual(self.engine.checksums(), self.fixture.sums[version])

    def assert_refused(self, reply, *texts):
        status, answer = reply
        self.assertEqual(status, 500, answer)
        for text in texts:
            self.assertIn(text, answer["error"]["message"])
        self.assert_holds(0)

    def update(self, path, base=None):
        return self.engine.update(path, base or self.fixture.digests[0])

    # Switches

    def test_random_switches_leave_what_a_full_load_leaves(self):
        draw, version = random.Random(SEED), 0
        for _ in range(SWITCHES):
            new = draw.choice([other for other in range(4) if other != version])
            self.fixture.switch(version, new, ahead=draw.random() < 0.5)
            version = new
            self.assert_holds(version)
            self.assertEqual(island.ask(self.engine.client), self.fixture.truth[version])
            self.assertEqual(self.engine.client.get("/weight_info"),
                             (200, {"weight_version": self.fixture.digests[version]}))

    def test_what_was_prepared_is_written_only_when_asked_for(self):
        paths = [self.fixture.changes(0, new) for new in (1, 2)]
        self.engine.prepare(paths[0], self.fixture.digests[0])
        self.assertEqual(island.ask(self.engine.client), self.fixture.truth[0])
        self.engine.call("/update_weights", {"update_info": plugin_engine.update_info(
            paths[1], self.fixture.digests[0])})
        self.assert_holds(2)
        self.engine.finish(self.fixture.digests[2])

    def test_a_damaged_file_is_refused_when_what_was_prepared_is_to_be_written(self):
        path = self.altered(lambda _, described: described[TENSOR].__setitem__(2, "0" * 16))
        self.engine.prepare(path, self.fixture.digests[0])
        self.assert_refused(self.engine.client.post("/update_weights", {
            "update_info": plugin_engine.update_info(path, self.fixture.digests[0])}), "corrupt")

    def test_a_full_load_between_updates_needs_another_init(self):
        self.fixture.switch(0, 1)
        self.engine.reload(self.fixture.checkpoints[2])
        status, answer = self.engine.client.post("/start_weight_update")
        self.assertEqual(status, 500)
        self.assertIn("not-ready", answer["error"]["message"])
        self.engine.init(self.fixture.checkpoints[2])
        self.fixture.switch(2, 3)
        self.assert_holds(3)

    def test_init_compares_the_weights_with_the_checkpoint(self):
        info = plugin_engine.init_info(self.fixture.checkpoints[1])
        status, answer = self.engine.client.post("/init_weight_transfer_engine",
                                                 {"init_info": info})
        self.assertEqual(status, 500)
        self.assertIn("is not what the checkpoint holds", answer["error"]["message"])
        self.assertEqual(self.engine.client.post("/start_weight_update")[0], 500)

    # Refusals

    def altered(self, change, **metadata):
        """The file from 0 to 1 after change(entries, described)."""
        checkpoints = map(changes_files.read_checkpoint, self.fixture.checkpoints[:2])
        entries, described = changes_files.between(*checkpoints)
        change(entries, described)
        return changes_files.write(self.fixture.dir / "altered.safetensors", entries, described,
                                   *self.fixture.digests[:2], **metadata)

    def test_another_base_is_refused(self):
        path = self.fixture.changes(1, 2)
        self.assert_refused(self.update(path, self.fixture.digests[1]), "conflict", "holds")
        self.assert_refused(self.update(path), "conflict")

    def test_a_file_for_other_weights_under_the_right_label_is_refused(self):
        old, new = map(changes_files.read_checkpoint, self.fixture.checkpoints[2:])
        path = changes_files.write(self.fixture.dir / "foreign.safetensors",
                                   *changes_files.between(old, new), self.fixture.digests[0],
                                   self.fixture.digests[3])
        self.assert_refused(self.update(path), "corrupt", "its sum would change")

    def test_unknown_tensors_and_other_shapes_are_refused(self):
        def rename(entries, described):
            described["nothing.weight"] = described.pop(TENSOR)
            for prefix in ("p:", "b:"):
                entries[prefix + "nothing.weight"] = entries.pop(prefix + TENSOR)

        def reshape(_, described):
            described[TENSOR][1].reverse()

        self.assert_refused(self.update(self.altered(rename)), "invalid", "nothing.weight")
        self.assert_refused(self.update(self.altered(reshape)), "invalid", TENSOR)

    def test_damaged_files_are_refused(self):
        def flip(name):
            def change(entries, _):
                entries[name] = entries[name].copy()
                entries[name][-1] ^= 1
            return change

        def swap(entries, _):
            positions = entries["p:model.embed_tokens.weight"]
            positions[[0, 1]] = positions[[1, 0]]

        def outside(entries, _):
            entries["p:model.embed_tokens.weight"][-1] = 512 * 256

        for change in (flip(f"b:{TENSOR}"), flip(f"p:{TENSOR}"), swap, outside,
                       lambda entries, _: entries.pop(f"b:{TENSOR}"),
                       lambda _, described: described[TENSOR].__setitem__(2, "0" * 16)):
            self.assert_refused(self.update(self.altered(change)), "corrupt")
        self.assert_refused(self.update(self.altered(lambda *_: None, changes="2")), "format '2'")
        whole = self.fixture.changes(0, 1).read_bytes()
        cut = self.fixture.dir / "cut.safetensors"
        for size in (0, 7, 100, len(whole) - 1):
            cut.write_bytes(whole[:size])
            self.assert_refused(self.update(cut), "corrupt")
        self.assert_refused(self.update(self.fixture.dir / "missing"), "not-found")
        self.fixture.switch(0, 1)
        self.assert_holds(1)

    def test_requests_of_another_form_are_refused(self):
        for info in ({"format": 2}, {"format": 1}, {"format": 1, "undo": True, "base": BAD_DIGEST},
                     {"format": 1, "changes": 5, "base": self.fixture.digests[0]}, {"other": 1}):
            self.engine.call("/start_weight_update")
            reply = self.engine.client.post("/update_weights", {"update_info": info})
            self.assert_refused(reply, "nvalid")

    # Failures and ways back

    def test_an_update_that_is_not_finished_can_be_undone(self):
        self.assertEqual(self.update(self.fixture.changes(0, 1))[0], 200)
        self.assert_holds(1)
        self.engine.undo()
        self.assert_holds(0)
        self.engine.finish("after-undo")
        self.fixture.switch(0, 2)
        self.assert_holds(2)

    def test_a_start_undoes_what_was_not_finished(self):
        self.assertEqual(self.update(self.fixture.changes(0, 1))[0], 200)
        # A second update is refused, and vLLM closes the session of one that fails.
        reply = self.engine.client.post("/update_weights", {"update_info": plugin_engine.update_info(
            self.fixture.changes(1, 2), self.fixture.digests[1])})
        self.assertEqual(reply[0], 500)
        self.assert_holds(1)
        self.engine.call("/start_weight_update")
        self.assert_holds(0)

    def test_a_failure_in_the_middle_leaves_the_old_bits(self):
        for written in (0, 1, 17):
            self.engine.fail_write(written)
            self.assert_refused(self.update(self.fixture.changes(0, 1)), "internal",
                                "a write that the test lets fail")
        self.engine.fail_write(None)
        self.fixture.switch(0, 1)
        self.assertEqual(island.ask(self.engine.client), self.fixture.truth[1])

    def test_a_reload_after_all_that_is_as_good_as_ever(self):
        self.engine.fail_write(3)
        self.assert_refused(self.update(self.fixture.changes(0, 1)), "internal")
        self.engine.reload(self.fixture.checkpoints[3])
        self.assert_holds(3)
        self.assertEqual(island.ask(self.engine.client), self.fixture.truth[3])


class MixtureTest(unittest.TestCase):

    def test_experts_are_switched_within_their_packed_layout(self):
        fixture = mixture()
        fixture.engine.init(fixture.checkpoints[0])
        for _ in range(5):
            fixture.switch(0, 1)
            self.assertEqual(island.ask(fixture.engine.client), fixture.last)
            fixture.switch(1, 0)
            self.assertEqual(island.ask(fixture.engine.client), fixture.first)


if __name__ == "__main__":
    unittest.main()
