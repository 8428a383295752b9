"""What the tests of real engines share: checkpoints, engines, the truth about them, a sidecar."""

import atexit
import functools
import pathlib
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

sys.path.insert(0, str(harness.ROOT / "examples" / "vllm"))
import launch  # noqa: E402
import make_qwen3  # noqa: E402

SEED = 7
VERSIONS = (1, 2, 3)
NO_POLLING = ("--poll-ms", 3_600_000)  # tests say themselves when the board is to be looked at
# Greedy, and each with log-probabilities of prompt and output: whatever part of the weights is not
# as it should be shows in some digit.
PROBE = {"max_tokens": 24, "temperature": 0, "ignore_eos": True, "logprobs": 3,
         "prompt_logprobs": 1, "return_token_ids": True}
PROMPTS = ([5, 6, 7, 8], list(range(100, 180)), "the weather in the alps")


def ask(client, **more):
    """What the engine makes of each prompt. One at a time: a batch adds in another order."""
    return [completion(client, {**PROBE, "prompt": prompt, **more})["choices"]
            for prompt in PROMPTS]


def completion(client, body):
    status, answer = client.post("/v1/completions", body)
    assert status == 200, (status, answer)
    return answer


class Engines:
    """The engine that all tests share, and what fresh engines say of each version.

    The embeddings are untied: where CPU kernels pack matrices, vLLM 0.32 reloads a tied output
    matrix in the embedding and not in the packed copy (docs/vllm.md).
    """

    def __init__(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-vllm-")
        atexit.register(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        print(f"checkpoints of seed {SEED}", file=sys.stderr, flush=True)
        trainer = make_qwen3.Trainer(SEED, tied=False)
        self.checkpoints = {1: trainer.save(self.dir / "step-0")}
        for version in VERSIONS[1:]:
            trainer.step()
            self.checkpoints[version] = trainer.save(self.dir / f"step-{trainer.step_count}")
        self.truth = self._ask_fresh_engines()

    def _ask_fresh_engines(self):
        """Starts one on each version, together; keeps the first."""
        fresh = {version: self._start(version) for version in VERSIONS}
        self.process, truth = fresh[1], {}
        for version, engine in fresh.items():
            engine.wait_until_up()
            truth[version] = ask(harness.Client(engine.port))
            if engine is not self.process:
                engine.stop()
        assert len({str(said) for said in truth.values()}) == len(VERSIONS), "versions look alike"
        return truth

    def _start(self, version):
        engine = launch.Vllm(self.checkpoints[version], launch.free_port(),
                             self.dir / f"vllm-{version}.log")
        atexit.register(engine.kill)
        return engine


@functools.cache
def engines():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that they end with this process
    return Engines()


def weights_of(version):
    """Later versions have the weights of these again."""
    return VERSIONS[(version - 1) % len(VERSIONS)]


class IslandTest(unittest.TestCase):
    """Each test has a board and a sidecar of its own, which serves version 1 to begin with."""

    options = NO_POLLING

    def setUp(self):
        self.engines = engines()
        self.engine = harness.Client(self.engines.process.port)
        directory = tempfile.TemporaryDirectory(prefix="isthmus-island-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        self.run_of_weights = launch.Run(self.dir)
        self.publish(1)
        self.start()
        self.wait_for_version(1)

    def tearDown(self):
        engine = self.engines.process
        self.assertIsNone(engine.process.poll(), f"vLLM has ended\n{engine.first_errors()}")

    def publish(self, version):
        self.run_of_weights.publish(self.engines.checkpoints[weights_of(version)])

    def start(self, *options, engine_port=None):
        """A sidecar, or another one in place of one that has ended, with the same replica."""
        run = self.run_of_weights
        self.process = launch.Sidecar(run.board, run.name, self.dir / "replica",
                                      [f"vllm:http://127.0.0.1:{engine_port or self.engine.port}"],
                                      self.dir / "sidecar.log", *self.options, *options)
        self.addCleanup(self.process.kill)
        self.sidecar = harness.Client(self.process.port)

    def restart(self, *options):
        self.assertEqual(self.process.stop(), 0, self.process.tail())
        self.start(*options)

    def wake(self):
        status, answer = self.sidecar.post("/wake")
        self.assertIn(status, (200, 202, 204), answer)

    def release(self, version):
        """Publishes it and waits until the engine serves it."""
        self.publish(version)
        self.switch_to(version)

    def switch_to(self, version):
        """Tells the sidecar of what was published, and waits until the engine serves it."""
        self.wake()
        self.wait_for_version(version)

    def wait_for_version(self, version):
        self.wait_for(lambda info: info["ready"] and info["applied"] == version,
                      f"ready at version {version}")

    def wait_for(self, condition, what):
        def check():
            info = self.sidecar.get("/server_info")[1]
            return info if condition(info) else None
        try:
            return harness.wait_until(check, what)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.sidecar.get('/server_info')}\nsidecar:\n"
                                 f"{self.process.tail()}\nvLLM:\n"
                                 f"{self.engines.process.first_errors()}") from None

    def assert_serves(self, version):
        """Through the sidecar and without it, to the last bit."""
        truth = self.engines.truth[weights_of(version)]
        self.assertEqual(ask(self.sidecar), truth)
        self.assertEqual(ask(self.engine, cache_salt=f"test-{version}"), truth)
