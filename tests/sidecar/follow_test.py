#!/usr/bin/env python3
"""An island follows its run: new versions, pins, revoked versions, a board that is not there."""

import shutil
import unittest

import island
from island import harness, launch

WAITS = {"Isthmus-Wait-Ms": "60000"}


class FollowTest(island.IslandTest):

    def test_it_boots_with_one_load_and_serves_the_newest_version(self):
        self.assertEqual(len(self.engine.loads()), 1)
        info = self.info()
        self.assertEqual((info["state"], info["applied"], info["target"], info["lag"]),
                         ("ready", 1, 1, 0))
        self.assertEqual(self.sidecar.get("/health")[0], 200)
        self.assert_serves(1)

    def test_it_follows_each_version_without_being_told(self):
        for _ in range(3):
            self.publish()
            self.wait_for_version(self.head)
            self.assert_serves(self.head)

    def test_the_checkpoint_of_the_engine_is_the_replica_and_stays_what_was_published(self):
        self.release(2)
        self.assertEqual(set(self.engine.loads()), {str(self.dir / "replica")})
        self.assertEqual(island.fake_engine.digest_of(self.dir / "replica"), island.digest_of(3))

    def test_a_pin_is_kept_whatever_is_published_and_its_end_brings_the_newest(self):
        self.release()
        self.stop_sidecar()
        self.start_sidecar("--pin", 1)
        self.wait_for_version(1)
        self.publish()
        self.wake()
        self.wait_for(lambda info: info["board"]["head"] == 3, "the log is read")
        self.assert_serves(1)
        self.assertEqual(self.version_of({"Isthmus-Min-Version": "2", **WAITS}), -409)
        self.assertEqual(len(self.engine.loads()), 3)
        self.stop_sidecar()
        self.start_sidecar()
        self.wait_for_version(3)
        self.assert_serves(3)

    def test_a_revoked_version_is_left_and_gone_for_those_that_ask_for_it(self):
        self.release()
        self.revoke(2)
        self.wait_for_version(1)
        self.assert_serves(1)
        status, answer = self.ask({"Isthmus-Exact-Version": "2"})
        self.assertEqual((status, answer["error"]["type"], answer["error"]["version"]),
                         (410, "WeightVersionRevoked", 2))
        self.assertEqual(self.version_of({"Isthmus-Exact-Version": "2", **WAITS}), -410)
        self.release()
        self.assert_serves(3)

    def test_a_revoked_version_is_not_served_again_after_a_restart(self):
        self.release()
        self.stop_sidecar()
        self.revoke(2)
        self.start_sidecar()
        self.wait_for_version(1)
        self.assert_serves(1)

    def test_those_that_wait_for_a_version_hear_that_it_was_revoked(self):
        self.publish()
        with island.moved_away(self.board):
            waiting = self.wait_in_line(self.version_of, {"Isthmus-Exact-Version": "3", **WAITS})
        self.publish()
        self.revoke(3)
        self.assertIn(waiting.result(), (3, -410))  # it may have been served before

    def test_a_version_of_another_model_is_not_loaded(self):
        other = self.dir / "other-model"
        island.make_model.make(other, island.SEED, {**island.CONFIG, "intermediate_size": 32})
        self.run_of_weights.publish(other)
        self.wake()
        info = self.wait_for(lambda info: info["unloadable"] == [2], "it is refused")
        self.assertIn("another model", info["reason"])
        self.assert_serves(1)
        self.assertEqual(len(self.engine.loads()), 1)
        self.head += 1
        self.release()
        self.assert_serves(3)

    def test_an_island_of_a_fork_begins_with_its_first_version_and_follows_it(self):
        self.release(2)
        self.stop_sidecar()
        run = self.run_of_weights
        launch.isthmus("board", "fork", run.name, 1, "--board", self.board, "--run", "fork")
        shutil.rmtree(self.dir / "replica")  # it belongs to the other run
        run.name, self.head = "fork", 1
        self.start_sidecar()
        self.wait_for_version(1)
        self.assert_serves(1)
        launch.isthmus("publish", island.checkpoint(2), "--board", self.board, "--run", "fork",
                       "--baseline", self.dir / "baseline-fork")
        self.wait_for_version(2)
        self.assert_serves(2)

    def wait_in_line(self, function, *arguments):
        """Runs function(*arguments) until its request is in the line."""
        before = self.info()["waiting"]
        waiting = harness.Background(function, *arguments)
        self.wait_for(lambda info: info["waiting"] == before + 1, "a request waits")
        return waiting


class SteppedTest(island.IslandTest):
    """The board is read when a test says so, or a request waits."""

    options = island.NO_POLLING

    def wait_in_line(self, headers):
        before = self.info()["waiting"]
        waiting = harness.Background(self.version_of, headers)
        self.wait_for(lambda info: info["waiting"] == before + 1, "a request waits")
        return waiting

    def test_a_wake_is_a_reading_of_the_log(self):
        self.publish()
        self.assert_serves(1)
        self.wake()
        self.wait_for_version(2)
        self.assert_serves(2)

    def test_an_island_that_is_behind_goes_straight_to_the_newest(self):
        self.publish(3)
        self.wake()
        self.wait_for_version(4)
        self.assertEqual(len(self.engine.loads()), 2)
        self.assert_serves(4)

    def test_a_waiting_request_is_reason_enough_to_read_the_log(self):
        self.publish()
        self.assertEqual(self.version_of({"Isthmus-Min-Version": "2", **WAITS}), 2)

    def test_an_exact_version_on_the_way_to_the_newest_is_stopped_at(self):
        self.publish(2)
        self.assertEqual(self.version_of({"Isthmus-Exact-Version": "2", **WAITS}), 2)
        self.assertEqual(self.version_of({"Isthmus-Exact-Version": "3", **WAITS}), 3)
        self.assertEqual(self.version_of({"Isthmus-Exact-Version": "2", **WAITS}), -409)

    def test_several_exact_versions_are_served_each_in_its_turn(self):
        with island.moved_away(self.board):
            waiting = [self.wait_in_line({"Isthmus-Exact-Version": str(version), **WAITS})
                       for version in (4, 2, 3)]
        self.publish(3)
        self.wake()
        self.assertEqual([request.result() for request in waiting], [4, 2, 3])

    def test_a_request_that_waits_for_what_never_comes_is_refused_in_time(self):
        status, answer = self.ask({"Isthmus-Min-Version": "9", "Isthmus-Wait-Ms": "50"})
        self.assertEqual((status, answer["target_version"], answer["applied"]), (409, 9, 1))


class BoardTest(island.IslandTest):
    """The board's directory is away for a while."""

    def test_it_serves_on_without_its_board_and_says_so(self):
        self.release()
        with island.moved_away(self.board):
            info = self.wait_for(lambda info: info["board"]["error"], "the board is missed")
            self.assertEqual((info["ready"], info["applied"], info["lag"]), (True, 2, 0))
            self.assert_serves(2)
        self.wait_for(lambda info: not info["board"]["error"], "the board is back")
        self.release()
        self.assert_serves(3)

    def test_a_lag_in_time_grows_while_the_board_is_away_and_one_in_versions_does_not(self):
        self.assertEqual(self.version_of({"Isthmus-Max-Lag": "60s"}), 1)
        with island.moved_away(self.board):
            harness.wait_until(lambda: self.version_of({"Isthmus-Max-Lag": "300ms"}) == -409,
                               "too old")
            self.assertEqual(self.version_of({"Isthmus-Max-Lag": "0"}), 1)
            self.assertEqual(self.version_of({"Isthmus-Max-Lag": "3600s"}), 1)
            waiting = harness.Background(self.version_of, {"Isthmus-Max-Lag": "300ms", **WAITS})
            self.wait_for(lambda info: info["waiting"] == 1, "a request waits")
        self.assertEqual(waiting.result(), 1)

    def test_started_without_its_board_it_serves_what_it_has(self):
        self.release()
        self.stop_sidecar()
        self.replace_engine()
        with island.moved_away(self.board):
            self.start_sidecar()
            self.wait_for_version(2)
            self.assert_serves(2)
        self.release()
        self.assert_serves(3)

    def test_a_board_that_comes_later_is_waited_for(self):
        self.stop_sidecar()
        (self.dir / "replica").rename(self.dir / "another")
        self.replace_engine()
        with island.moved_away(self.board):
            self.start_sidecar()
            self.wait_for(lambda info: info["reason"], "the reason is told")
            self.assertEqual(self.sidecar.get("/health")[0], 503)
            self.assertEqual(self.version_of(), -503)
        self.wait_for_version(1)
        self.assert_serves(1)


class SuccessorTest(island.IslandTest):
    """What the next sidecar makes of the engine that it finds."""

    def assert_adopts(self):
        loads = len(self.engine.loads())
        self.start_sidecar()
        info = self.wait_for_version(self.head)
        self.assertEqual(info["last_update"]["kind"], "adoption")
        self.assertEqual(len(self.engine.loads()), loads)
        self.assert_serves(self.head)

    def assert_reloads(self):
        loads = len(self.engine.loads())
        self.start_sidecar()
        self.wait_for_version(self.head)
        self.assertEqual(len(self.engine.loads()), loads + 1)
        self.assert_serves(self.head)
        self.assertIsNone(self.engine.state()["pause_mode"])

    def test_an_engine_that_serves_is_adopted_as_it_is(self):
        self.release()
        self.stop_sidecar()
        self.assert_adopts()
        self.kill_sidecar()
        self.assert_adopts()
        self.release()
        self.assert_serves(3)

    def test_an_engine_that_was_paused_meanwhile_is_loaded_anew(self):
        self.stop_sidecar()
        self.engine.post("/pause?mode=keep")
        self.assert_reloads()

    def test_an_engine_that_was_replaced_meanwhile_is_loaded_anew(self):
        self.stop_sidecar()
        self.replace_engine()
        self.assert_reloads()

    def test_an_engine_in_the_middle_of_a_load_is_waited_for_and_loaded_anew(self):
        self.engine.plan("/collective_rpc", "hang")
        self.publish()
        harness.wait_until(lambda: self.engine.state()["hanging"], "the load hangs")
        self.kill_sidecar()
        self.start_sidecar()
        self.wait_for(lambda info: not info["ready"], "it is not ready")
        self.assertEqual(self.version_of(), -503)
        self.engine.release()
        self.wait_for_version(2)
        self.assert_serves(2)

    def test_without_a_journal_nothing_is_adopted(self):
        self.stop_sidecar()
        (self.dir / "replica" / ".isthmus" / "engines.json").unlink()
        self.assert_reloads()

    def test_with_a_torn_journal_nothing_is_adopted(self):
        self.stop_sidecar()
        journal = self.dir / "replica" / ".isthmus" / "engines.json"
        journal.write_bytes(journal.read_bytes()[:20])
        self.assert_reloads()


if __name__ == "__main__":
    unittest.main()
