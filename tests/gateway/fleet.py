"""What the gateway's tests share: a board, islands that follow it, a gateway in front of them.

An island is a sidecar and a strict double of an engine (tests/sidecar/island.py): each token of an
answer says which bytes made it, and is checked against the version that the answer claims.
"""

import itertools
import os
import pathlib
import random
import re
import signal
import socket
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "sidecar")]
import island  # noqa: E402
from island import harness, launch  # noqa: E402

START_S = 60
POLL = ("--poll-ms", 100, "--slow-start-s", 0)


def steady_port():
    """A port that no connection going out may get while its server is down and to come back."""
    first = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(1000):
        port = random.SystemRandom().randrange(10_000, first)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise AssertionError("no free port")


class GatewayProcess(launch.Process):
    """`isthmus gateway`; constructed once it listens."""

    def __init__(self, log, *options, port=0):
        super().__init__((launch.program(), "gateway", "--listen", f"127.0.0.1:{port}", *options), log)
        listening = self.wait_until(
            lambda: re.search(r"^listening on https?://127\.0\.0\.1:(\d+)$",
                              self.log.read_text(errors="replace"), re.MULTILINE),
            "isthmus gateway", START_S)
        self.port = int(listening[1])


class Island:
    """A sidecar and its engine. They are killed and started apart."""

    def __init__(self, test, name, *options, kind="vllm", port=0, engine_options=()):
        self.test, self.name, self.options, self.kind = test, name, options, kind
        self.engine_options = engine_options
        self.engine = test.start_engine(kind, *engine_options)
        self.sidecar = None
        self.starts = itertools.count()
        self.start(port)

    def start(self, port=0):
        self.sidecar = launch.Sidecar(
            self.test.run_of_weights.board, self.test.run_of_weights.name,
            self.test.dir / self.name, [self.engine.spec],
            self.test.dir / f"{self.name}-{next(self.starts)}.log",
            *island.POLL, *self.options, port=port)
        self.port = self.sidecar.port
        self.test.addCleanup(self.sidecar.kill)

    @property
    def registers(self):
        return "--gateway" in self.options

    @property
    def listed(self):
        return f"{self.name}=http://127.0.0.1:{self.port}"

    @property
    def client(self):
        return harness.Client(self.port)

    def info(self):
        return self.client.get("/server_info")[1]

    def kill(self):
        """As when a machine is taken away: the sidecar and its connections are gone at once."""
        self.test.assertEqual(self.sidecar.kill(), -signal.SIGKILL)

    def restart(self):
        self.start(self.port)

    def leave(self):
        """It says that it leaves, lets its requests end, and ends."""
        self.test.assertEqual(self.sidecar.stop(), 0, self.sidecar.tail())

    def replace_engine(self):
        """Another process with the same address, on the weights that engines start with."""
        self.engine.stop()
        self.engine = self.test.start_engine(self.kind, *self.engine_options,
                                             "--port", self.engine.port)

    def send_signal(self, part, number):
        """`part`: "sidecar" or "engine"."""
        os.kill(getattr(self, part).process.pid, number)


class FleetTest(harness.ServerTest):
    """A test with `count` islands at version 1 behind a gateway."""

    count = 2
    island_options = ()
    gateway_options = POLL
    assert_no_violations = island.IslandTest.assert_no_violations
    assert_true_answer = island.IslandTest.assert_true_answer
    assert_true_token = island.IslandTest.assert_true_token
    publish = island.IslandTest.publish
    revoke = island.IslandTest.revoke

    def setUp(self):
        super().setUp()
        self.run_of_weights = launch.Run(self.dir)
        self.head = 0
        self.gateways = 0
        self.publish()
        self.islands = [self.start_island(f"island-{i}") for i in range(self.count)]
        self.start_gateway()
        self.wait_for_version(1)

    @property
    def board(self):
        return self.run_of_weights.board

    def start_engine(self, kind, *options):
        engine = island.Double(kind, island.checkpoint(0), *options)
        self.addCleanup(engine.stop)
        self.addCleanup(self.assert_no_violations, engine)
        return engine

    def start_island(self, name, *options, **more):
        return Island(self, name, *self.island_options, *options, **more)

    def start_gateway(self, *options, port=0):
        listed = [part for one in self.islands if not one.registers
                  for part in ("--island", one.listed)]
        self.gateways += 1
        self.process = GatewayProcess(self.dir / f"gateway-{self.gateways}.log",
                                      *self.gateway_options, *listed, *options, port=port)
        self.addCleanup(self.process.kill)
        self.gateway = harness.Client(self.process.port)

    def fleet(self):
        return self.gateway.get("/v1/fleet")[1]

    def island_facts(self, name):
        found = [one for one in self.fleet()["islands"] if one["id"] == name]
        return found[0] if found else None

    def wait_for(self, condition, what, deadline_s=harness.DEADLINE_S):
        """The first /v1/fleet for which condition(fleet) holds."""
        def check():
            fleet = self.fleet()
            return fleet if condition(fleet) else None
        try:
            return harness.wait_until(check, what, deadline_s)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.fleet()}\n{self.gateway.get('/events')[1]}\n"
                                 f"{self.process.tail()}") from None

    def wait_for_state(self, name, *states):
        return self.wait_for(
            lambda fleet: any(one["id"] == name and one["state"] in states
                              for one in fleet["islands"]), f"{name} is {states}")

    def wait_for_version(self, version, count=None):
        """So many islands (if not given, all) serve it, and no other."""
        count = len(self.islands) if count is None else count
        return self.wait_for(
            lambda fleet: sum(one["state"] == "ready" and one["served"] == version
                              for one in fleet["islands"]) == count,
            f"{count} islands at version {version}")

    def ask(self, headers=None, **more):
        """(status, headers, answer) of a completion, whose tokens are checked if there are any."""
        body = {**island.COMPLETION, **more}
        connection, response = self.gateway.send("POST", "/v1/completions", body, headers)
        with harness.contextlib.closing(connection):
            answer = harness.json.loads(response.read() or b"null")
        if response.status == 200:
            self.assert_true_answer(answer)
        return response.status, response.headers, answer

    def island_of(self, headers=None, **more):
        status, fields, answer = self.ask(headers, **more)
        self.assertEqual(status, 200, answer)
        return fields["Isthmus-Island"]
