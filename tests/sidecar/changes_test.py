#!/usr/bin/env python3
"""Switches that write only what changed, by the engine's plug-in, and what follows when it cannot."""

import unittest

import island
from island import harness

PLUGIN = ("--weight-transfer-backend", "isthmus")
INIT, UPDATE = "/init_weight_transfer_engine", "/update_weights"


class ChangesTest(island.IslandTest):
    engine_options = PLUGIN

    def last(self):
        return self.info()["last_update"]

    def reasons(self, event):
        return [one for one in self.sidecar.get("/events")[1] if one["event"] == event]

    def updates(self):
        """The changes files that the engine was told to read, by their names."""
        infos = [call["body"]["update_info"] for call in self.engine.log(UPDATE)]
        return [info["changes"].rsplit("/", 1)[1] for info in infos if "prepare" not in info]

    def prepared(self):
        return sum("prepare" in call["body"]["update_info"] for call in self.engine.log(UPDATE))


class PlugInTest(ChangesTest):
    options = island.NO_POLLING

    def test_switches_write_changes_only(self):
        self.assertTrue(self.info()["writes_changes"])
        self.assertFalse(self.last()["changes_only"])  # the first load
        for version in range(2, 6):
            self.release()
            self.assert_serves(version)
            self.assertTrue(self.last()["changes_only"])
        self.assertEqual(self.updates(), [f"{v}-{v + 1}.safetensors" for v in range(1, 5)])
        self.assertEqual(len(self.engine.loads()), 1)
        self.assertEqual(len(self.engine.log(INIT)), 1)
        self.assertEqual(self.prepared(), 4)
        kept = self.dir / "replica" / ".isthmus" / "changes"
        harness.wait_until(lambda: not kept.exists(), "what is no longer needed is removed")

    def test_several_versions_at_once_are_one_change(self):
        self.release(3)
        self.assert_serves(4)
        self.assertEqual(self.updates(), ["1-4.safetensors"])

    def test_what_was_staged_in_steps_is_written_in_steps(self):
        self.release()
        self.assertEqual(self.version_of({"Isthmus-Session": "s", "Isthmus-Session-Pin": "1"}), 2)
        for staged in (3, 4):
            self.publish()
            self.wake()
            self.wait_for(lambda info: f"version {staged} is staged" in info["reason"], "staged")
        self.revoke(2)
        self.wake()
        self.wait_for_version(4)
        self.assert_serves(4)
        self.assertEqual(self.updates(), [f"{v}-{v + 1}.safetensors" for v in range(1, 4)])
        self.assertEqual(len(self.engine.loads()), 1)

    def test_a_refused_change_is_a_whole_load_in_the_same_pause(self):
        self.engine.plan(UPDATE, "error", count=2)  # also when it is prepared
        self.release()
        self.assert_serves(2)
        self.assertFalse(self.last()["changes_only"])
        self.assertEqual(len(self.engine.loads()), 2)
        self.assertIn("fault injected", str(self.reasons("changes_failed")))
        self.release()  # it has learned again
        self.assert_serves(3)
        self.assertTrue(self.last()["changes_only"])
        self.assertEqual(len(self.engine.loads()), 2)

    def test_what_could_not_be_prepared_is_written_all_the_same(self):
        self.engine.plan(UPDATE, "error")
        self.release()
        self.assert_serves(2)
        self.assertTrue(self.last()["changes_only"])
        self.assertIn("fault injected", str(self.reasons("prepare_failed")))

    def test_what_was_prepared_in_vain_is_forgotten(self):
        self.engine.plan("/pause", "error")
        self.publish()
        self.wake()
        self.wait_for(lambda info: "gave up version 2" in info["reason"], "it gives up")
        self.assert_serves(1)
        self.release()
        self.assert_serves(3)
        self.assertTrue(self.last()["changes_only"])

    def test_what_is_refused_again_and_again_is_no_longer_tried(self):
        for _ in range(2):
            self.engine.plan(UPDATE, "half_applied", count=2)
            self.release()
        self.assertFalse(self.info()["writes_changes"])
        calls = len(self.engine.log(UPDATE))
        self.release()
        self.assert_serves(4)
        self.assertEqual(len(self.engine.log(UPDATE)), calls)

    def test_weights_that_somebody_else_loaded_are_not_written_into(self):
        self.engine.post("/pause?mode=keep")
        self.engine.post("/collective_rpc", {"method": "reload_weights", "kwargs": {
            "weights_path": str(island.checkpoint(0))}})
        self.engine.post("/resume")
        self.release()
        self.assert_serves(2)
        self.assertFalse(self.last()["changes_only"])

    def test_a_sidecar_that_takes_over_loads_once_and_then_writes_changes(self):
        self.stop_sidecar()
        self.start_sidecar()
        self.wait_for_version(1)
        self.assertEqual(self.last()["kind"], "adoption")
        self.release()
        self.assertFalse(self.last()["changes_only"])
        self.release()
        self.assert_serves(3)
        self.assertTrue(self.last()["changes_only"])

    def test_a_sidecar_that_was_killed_while_changes_were_written_loads_a_whole_version(self):
        self.engine.plan(UPDATE, "slow_drain", count=2)  # in the middle; not when it is prepared
        self.publish()
        self.wake()
        harness.wait_until(lambda: self.engine.state()["hanging"], "it is in the middle")
        self.kill_sidecar()
        self.engine.release()
        self.start_sidecar()
        self.wait_for_version(2)
        self.assert_serves(2)
        self.assertFalse(self.last()["changes_only"])
        self.release()
        self.assert_serves(3)
        self.assertTrue(self.last()["changes_only"])

    def test_an_engine_that_was_replaced_learns_anew(self):
        self.replace_engine()
        harness.wait_until(lambda: self.engine.log(INIT), "it learns")
        self.wait_for_version(1)
        self.release()
        self.assert_serves(2)
        self.assertTrue(self.last()["changes_only"])


class WithoutTest(ChangesTest):
    engine_options = ()

    def test_an_engine_without_the_plug_in_loads_whole_versions(self):
        self.assertFalse(self.info()["writes_changes"])
        self.assertIn("not configured", str(self.reasons("learned")))
        self.release()
        self.assertFalse(self.last()["changes_only"])
        self.assertEqual(len(self.engine.loads()), 2)
        self.assertEqual(len(self.engine.log(INIT)), 1)  # asked once


class UnwantedTest(ChangesTest):
    options = (*island.POLL, "--load", "full")

    def test_the_plug_in_is_left_alone(self):
        self.release()
        self.assertEqual(self.engine.log(INIT), [])
        self.assertEqual(len(self.engine.loads()), 2)


class GroupTest(ChangesTest):
    kinds = ("vllm", "vllm")

    def test_all_write_or_all_load(self):
        self.release()
        self.assertTrue(self.last()["changes_only"])
        self.engines[1].plan(UPDATE, "error", count=2)
        self.release()
        self.assertFalse(self.last()["changes_only"])
        self.assertEqual([len(engine.loads()) for engine in self.engines], [2, 2])
        self.assert_serves(3)


if __name__ == "__main__":
    unittest.main()
