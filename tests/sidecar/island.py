"""What the sidecar's tests share: a board, strict doubles of engines, a sidecar in front of them.

Tokens of a double say which bytes made them (tests/engines/fake_engine.py). Whatever a client gets
is checked here: made by the version that the answer claims, all of it by the bytes published as
that version; and no double may have been made to do what a real engine would suffer from.
"""

import contextlib
import functools
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "engines"), str(ROOT / "examples" / "vllm")]
import fake_engine  # noqa: E402
import harness  # noqa: E402
import launch  # noqa: E402
import make_model  # noqa: E402

SEED = int(os.environ.get("ISTHMUS_TEST_SEED", "1"))
CONFIG = {**make_model.CONFIG, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 128}
POLL = ("--poll-ms", 50)
NO_POLLING = ("--poll-ms", 3_600_000)  # tests say themselves when the board is to be looked at
COMPLETION = {"prompt": "the weather in the alps", "max_tokens": 4, "return_token_ids": True}
CHANGED_BYTES = 40  # of a checkpoint from one version to the next: a small patch


@functools.cache
def checkpoints():
    """A directory in which `checkpoint` makes them; it ends with the process."""
    return tempfile.TemporaryDirectory(prefix="isthmus-checkpoints-")


@functools.cache
def checkpoint(number):
    """The weights after so many steps; 0 is what engines are started with."""
    directory = pathlib.Path(checkpoints().name) / f"step-{number}"
    if number == 0:
        make_model.make(directory, SEED, CONFIG)
        return directory
    shutil.copytree(checkpoint(number - 1), directory)
    steps = random.Random(SEED + number)
    for shard in directory.glob("*.safetensors"):
        data = bytearray(shard.read_bytes())
        for _ in range(CHANGED_BYTES):
            place = steps.randrange(len(data) // 2, len(data))  # behind the header
            data[place - place % 2] ^= 1 << steps.randrange(3)  # low bits of a BF16's mantissa
        shard.write_bytes(data)
    return directory


@functools.cache
def digest_of(number):
    return fake_engine.digest_of(checkpoint(number))


class Double(harness.Server):
    """A strict double of an engine, and what it knows about the calls that it got."""

    def __init__(self, kind, *options):
        self.kind = kind
        super().__init__(harness.HERE / f"{kind}_double.py", *options)
        self.spec = f"{kind}:http://127.0.0.1:{self.port}"

    def state(self):
        return self.get("/_double/state")[1]

    def log(self, path=None, first=0):
        """Its calls but those of its own routes, from the one with this id on."""
        calls = self.call("GET", "/_double/log", {"from": first})[1]
        return [call for call in calls if path in (None, call["path"])]

    def loads(self):
        """The directories that it was told to load, in order."""
        found = []
        for call in self.log():
            body = call["body"] or {}
            if call["path"] == "/update_weights_from_disk":
                found.append(body["model_path"])
            elif body.get("method") == "reload_weights" if isinstance(body, dict) else False:
                found.append(body["kwargs"]["weights_path"])
        return found

    def violations(self):
        return self.get("/_double/violations")[1]

    def plan(self, route, kind, **more):
        status, answer = self.post("/_double/faults", {"route": route, "kind": kind, **more})
        assert status == 200, answer

    def release(self):
        self.post("/_double/release", {})

    def manual(self, manual=True):
        self.post("/_double/pacing", {"manual": manual})

    def step(self, tokens=1):
        return self.post("/_double/step", {"tokens": tokens})[1]["made"]

    def is_up(self):
        return self.process.poll() is None


class IslandTest(harness.ServerTest):
    """A test with a board, engines and a sidecar, which serves version 1 to begin with."""

    kinds = ("vllm",)
    options = POLL
    engine_options = ()

    def setUp(self):
        super().setUp()
        self.run_of_weights = launch.Run(self.dir)
        self.head = 0
        self.sidecars = 0
        self.publish()
        self.engines = [self.start_engine(kind) for kind in self.kinds]
        self.engine = self.engines[0]
        self.start_sidecar()
        self.wait_for_version(1)

    @property
    def board(self):
        return self.run_of_weights.board

    # Engines

    def start_engine(self, kind, *options, checked=True):
        """`checked` ones are asked at the end whether the sidecar broke a rule."""
        engine = Double(kind, checkpoint(0), *self.engine_options, *options)
        self.addCleanup(engine.stop)
        if checked:
            self.addCleanup(self.assert_no_violations, engine)
        return engine

    def replace_engine(self, place=0, kill=True):
        """Another process with the same address, on the weights that engines start with."""
        old = self.engines[place]
        if kill:
            self.assert_no_violations(old)
            old.stop()
        self.engines[place] = self.start_engine(old.kind, "--port", old.port)
        self.engine = self.engines[0]

    def assert_no_violations(self, engine):
        if engine.is_up():
            self.assertEqual(engine.violations(), [], json.dumps(engine.log()[-20:], indent=1))

    # The board

    def publish(self, count=1):
        """So many further versions; returns the newest."""
        for _ in range(count):
            self.head += 1
            self.run_of_weights.publish(checkpoint(self.head))
        return self.head

    def revoke(self, version):
        launch.isthmus("board", "revoke", version, "--board", self.board, "--run",
                       self.run_of_weights.name)

    # The sidecar

    def start_sidecar(self, *options, port=0):
        """A sidecar, or another one in place of one that has ended, with the same replica."""
        self.sidecars += 1
        self.process = launch.Sidecar(
            self.board, self.run_of_weights.name, self.dir / "replica",
            [engine.spec for engine in self.engines], self.dir / f"sidecar-{self.sidecars}.log",
            *self.options, *options, port=port)
        self.addCleanup(self.process.kill)
        self.sidecar = harness.Client(self.process.port)

    def stop_sidecar(self):
        self.assertEqual(self.process.stop(), 0, self.process.tail())

    def kill_sidecar(self):
        self.assertEqual(self.process.kill(), -signal.SIGKILL)

    def wake(self):
        self.assertEqual(self.sidecar.post("/wake")[0], 200)

    def release(self, count=1):
        """Publishes so many and waits until the newest is served."""
        self.publish(count)
        self.wake()
        self.wait_for_version(self.head)

    def info(self):
        return self.sidecar.get("/server_info")[1]

    def wait_for(self, condition, what, deadline_s=harness.DEADLINE_S):
        """The first /server_info for which condition(info) holds."""
        def check():
            info = self.info()
            return info if condition(info) else None
        try:
            return harness.wait_until(check, what, deadline_s)
        except AssertionError as error:
            raise AssertionError(f"{error}: {json.dumps(self.info(), indent=1)}\n"
                                 f"{self.sidecar.get('/events')[1]}\n{self.process.tail()}"
                                 ) from None

    def wait_for_version(self, version):
        return self.wait_for(lambda info: info["ready"] and info["applied"] == version,
                             f"ready at version {version}")

    # Requests

    def ask(self, headers=None, **more):
        """(status, answer) of a completion, whose tokens are checked if there are any."""
        kind = self.engine.kind
        body = {**COMPLETION, **more}
        status, answer = self.sidecar.post("/v1/completions", body, headers)
        if status == 200:
            self.assert_true_answer(answer, kind)
        return status, answer

    def version_of(self, headers=None, **more):
        """The version that answered a completion, or the status of the refusal."""
        status, answer = self.ask(headers, **more)
        return answer["weight_version_end"] if status == 200 else -status

    def assert_serves(self, version):
        status, answer = self.ask()
        self.assertEqual(status, 200, answer)
        self.assertEqual(versions(answer), (version, version))
        for token in tokens(answer):
            self.assertEqual(token["version"], str(version))

    def assert_true_answer(self, answer, kind="vllm"):
        """Every token is of a version that the answer claims and of that version's bytes."""
        start, end = versions(answer)
        self.assertTrue(tokens(answer), answer)
        for token in tokens(answer):
            self.assert_true_token(token)
            self.assertTrue(start <= int(token["version"]) <= end, answer)

    def assert_true_token(self, token):
        self.assertTrue(token["version"].isdecimal(), token)
        self.assertEqual(token["digest"], digest_of(int(token["version"])), token)
        self.assertEqual(token["kv"], [token["digest"]], token)


class Reading(harness.Background):
    """Reads a stream to its end; `events` are those so far."""

    def __init__(self, client, body=None, headers=None, path="/v1/completions"):
        self.stream = client.stream(path, {**COMPLETION, **(body or {})}, headers)
        self.headers = self.stream.headers
        self.events = []
        super().__init__(self._read)

    def _read(self):
        """True if the stream came to its end, and was not cut off."""
        try:
            for event in self.stream:
                self.events.append(event)
        except (OSError, http.client.HTTPException, ValueError):
            return False
        return not self.stream.cut_off

    def tokens(self):
        return [token for event in self.events for token in tokens(event)]

    def wait_for_tokens(self, count):
        harness.wait_until(lambda: len(self.tokens()) >= count, f"{count} tokens")


def versions(answer):
    """(first, last) version that an answer or event claims."""
    return answer["weight_version_start"], answer["weight_version_end"]


def tokens(answer):
    """The double's proofs of an OpenAI answer or event."""
    return [token for choice in answer.get("choices", ()) for token in choice["_double"]]


@contextlib.contextmanager
def moved_away(path):
    """As a file system that is not there for a while."""
    elsewhere = path.with_name(path.name + "-elsewhere")
    path.rename(elsewhere)
    try:
        yield
    finally:
        elsewhere.rename(path)
