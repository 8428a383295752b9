#!/usr/bin/env python3
"""A sidecar switches the real vLLM through the plug-in: many times, forward and back, and each time
the engine says, to the last bit, what it says of these weights when it has just loaded them."""

import pathlib
import random
import tempfile
import unittest

import island
import make_qwen3
import plugin_engine
from island import harness, launch

SEED = 11
STATES = 4  # checkpoints, of which each version is one
SWITCHES = 50


class PlugInSwitchTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-plugin-")
        cls.addClassCleanup(directory.cleanup)
        cls.dir = pathlib.Path(directory.name)
        trainer = make_qwen3.Trainer(SEED, tied=False)
        cls.checkpoints = [trainer.save(cls.dir / "step-0")]
        for _ in range(STATES - 1):
            trainer.step()
            cls.checkpoints.append(trainer.save(cls.dir / f"step-{trainer.step_count}"))
        cls.engine = plugin_engine.Engine(cls.checkpoints[0], cls.dir / "site", cls.dir / "vllm.log")
        cls.addClassCleanup(cls.engine.kill)
        cls.engine.wait_until_up()
        cls.fresh = island.ask(cls.engine.client)

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-island-")
        self.addCleanup(directory.cleanup)
        self.island = pathlib.Path(directory.name)
        self.run_of_weights = launch.Run(self.island)
        self.head = 0
        self.states = [None]  # of each version
        self.release(0, wait=False)
        self.start()
        self.wait_for(1)

    def start(self, *options):
        self.process = launch.Sidecar(
            self.run_of_weights.board, self.run_of_weights.name, self.island / "replica",
            [f"vllm:http://127.0.0.1:{self.engine.port}"], self.island / "sidecar.log",
            *island.NO_POLLING, *options)
        self.addCleanup(self.process.kill)
        self.sidecar = harness.Client(self.process.port)

    def info(self):
        return self.sidecar.get("/server_info")[1]

    def wait_for(self, version):
        def there():
            info = self.info()
            return info if info["ready"] and info["applied"] == version else None
        try:
            return harness.wait_until(there, f"version {version}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.info()}\n{self.process.tail()}\n"
                                 f"{self.engine.first_errors()}") from None

    def release(self, state, wait=True):
        """The next version has these weights; what is known of it when the engine serves it."""
        self.head += 1
        self.states.append(state)
        self.run_of_weights.publish(self.checkpoints[state])
        if not wait:
            return None
        self.sidecar.post("/wake")
        return self.wait_for(self.head)

    def test_after_every_switch_it_says_what_it_says_after_a_whole_load(self):
        self.assertTrue(self.info()["writes_changes"], self.process.tail())
        truth = {0: self.fresh}
        self.process.stop()
        self.start("--load", "full")  # takes over
        self.wait_for(1)
        for state in range(1, STATES):
            update = self.release(state)["last_update"]
            self.assertFalse(update["changes_only"])
            truth[state] = island.ask(self.engine.client, cache_salt=f"truth-{state}")
        self.assertEqual(len({str(said) for said in truth.values()}), STATES)
        self.process.stop()
        self.start()
        self.wait_for(self.head)
        self.release(0)  # a whole load, after which the engine learns
        draws = random.Random(SEED)
        for _ in range(SWITCHES):
            state = draws.choice([other for other in range(STATES) if other != self.states[-1]])
            update = self.release(state)["last_update"]
            self.assertTrue(update["changes_only"], update)
            self.assertEqual(island.ask(self.sidecar), truth[state], f"version {self.head}")

    def test_an_engine_that_was_loaded_behind_its_back_is_loaded_in_full(self):
        self.engine.call("/pause?mode=keep")
        self.engine.reload(self.checkpoints[2])
        self.engine.call("/resume")
        update = self.release(1)["last_update"]
        self.assertFalse(update["changes_only"])
        update = self.release(0)["last_update"]
        self.assertTrue(update["changes_only"], update)
        self.assertEqual(island.ask(self.sidecar), self.fresh)


if __name__ == "__main__":
    unittest.main()
