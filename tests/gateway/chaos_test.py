#!/usr/bin/env python3
"""A minute of kills, stalls, leaves and new versions under many clients, and of a gateway that dies.

Whatever a client gets is what it asked for and true; what was refused may be tried again; nothing is
cut off but by a death; every answer that came whole is in the log of rollouts, and all comes to rest.
ISTHMUS_TEST_SECONDS says how long, ISTHMUS_TEST_SEED what happens.
"""

import os
import random
import re
import signal
import sys
import threading
import time
import unittest

import fleet
from chaos_clients import GATEWAY, ChaosClient, Disturbances, sum_of
from fleet import harness, island, launch

SECONDS = float(os.environ.get("ISTHMUS_TEST_SECONDS", "60"))
ISLANDS = 8  # half of them are listed, the others register
CLIENTS = 50
PAUSE_S = 0.5  # of a client between two requests: two cores must not be the limit
TTL_S = 2
AT_ONCE = 3  # islands that are disturbed
MOST_MEMORY_KB = 300_000
ENGINE = ("--token-ms", 20)


class Driver(threading.Thread):
    """Disturbs islands, at most AT_ONCE at a time, and publishes versions, until told to end."""

    def __init__(self, test, disturbances):
        super().__init__(daemon=True)
        self._test, self._disturbances = test, disturbances
        self._pick = random.Random(island.SEED)
        self._ended = threading.Event()
        self._work = {}  # island's name: the thread that disturbs it
        self.counts, self.failure = {}, None
        self.start()

    def run(self):
        try:
            while not self._ended.wait(self._pick.uniform(0.1, 0.6)):
                self._act()
            for work in self._work.values():
                work.result()
        except BaseException as error:
            self.failure = error

    def end(self):
        """Returns when all islands are themselves again."""
        self._ended.set()
        self.join(3 * harness.DEADLINE_S)
        assert not self.is_alive(), "an island did not come back"
        if self.failure:
            raise self.failure

    def _act(self):
        kind = self._pick.choice(("publish", "publish", "kill sidecar", "kill engine",
                                  "stall sidecar", "stall engine", "leave"))
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind == "publish":
            self._test.publish()
            return
        for name in [name for name, work in self._work.items() if not work.is_alive()]:
            self._work.pop(name).result()
        calm = [one for one in self._test.islands if one.name not in self._work]
        if len(self._work) < AT_ONCE:
            one, seconds = self._pick.choice(calm), self._pick.uniform(0, 2)
            self._work[one.name] = harness.Background(self._disturb, one, kind, seconds)

    def _disturb(self, one, kind, seconds):
        if kind.startswith("stall"):  # nobody dies: nothing may be cut off
            part = kind.split()[1]
            one.send_signal(part, signal.SIGSTOP)
            time.sleep(seconds)
            one.send_signal(part, signal.SIGCONT)
            return
        if kind == "leave":
            one.leave()
            time.sleep(seconds / 2)
            one.restart()
            return
        with self._disturbances.of(one.name):
            if kind == "kill sidecar":
                one.kill()
                time.sleep(seconds / 2)
                one.restart()
            else:
                one.replace_engine()
            harness.wait_until(lambda: one.info()["ready"], f"{one.name} is ready after {kind}")


class ChaosTest(fleet.FleetTest):
    count = ISLANDS // 2

    def setUp(self):
        print(f"seed {island.SEED}", file=sys.stderr)
        super().setUp()
        registers = ("--gateway", f"http://127.0.0.1:{self.process.port}", "--gateway-ttl-s", TTL_S)
        for place in range(ISLANDS // 2, ISLANDS):
            name = f"island-{place}"
            self.islands.append(self.start_island(name, *registers, "--island-id", name))
        self.wait_for_version(1)

    def start_island(self, name, *options, **_):
        kind = "sglang" if name.endswith(("0", "7")) else "vllm"
        return super().start_island(name, *options, kind=kind, port=fleet.steady_port(),
                                    engine_options=ENGINE)

    def start_gateway(self, *_, port=0):
        # The second one asks twice where the first island is slow.
        hedge = ("--hedge-ms", 150) if self.gateways else ()
        super().start_gateway("--record", self.dir / "rollouts", "--record-spool",
                              self.dir / "spool", "--record-rotate-s", 5, *hedge,
                              port=port or fleet.steady_port())

    def publish(self, count=1):
        for number in range(self.head + 1, self.head + 1 + count):
            island.digest_of(number)  # clients compare with it at once
            super().publish()

    def test_nothing_is_wrong_or_lost(self):
        disturbances = Disturbances()
        clients = [ChaosClient(self, number, disturbances, PAUSE_S) for number in range(CLIENTS)]
        driver = Driver(self, disturbances)
        time.sleep(SECONDS / 2)
        self.kill_gateway(disturbances)
        time.sleep(SECONDS / 2)
        driver.end()
        memory_kb = self.memory_kb()
        for client in clients:
            client.end()
        for client in clients:
            client.result()
        counts = sum_of(clients)
        print(f"{driver.counts}\n{counts}\n{memory_kb} kB", file=sys.stderr)
        self.assertGreater(counts["whole"] + counts["stream"], CLIENTS)
        self.end_leases()
        self.assert_at_rest()
        self.assertLess(memory_kb, MOST_MEMORY_KB)
        self.assert_recorded(clients)

    def kill_gateway(self, disturbances):
        with disturbances.of(GATEWAY):
            self.assertEqual(self.process.kill(), -signal.SIGKILL)
            self.start_gateway(port=self.process.port)

    def memory_kb(self):
        with open(f"/proc/{self.process.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1])

    def end_leases(self):
        """Those of pinned sessions keep islands at their versions; they end with their sidecar."""
        for one in self.islands:
            if one.info()["applied"] != self.head:
                one.kill()
                one.restart()

    def assert_at_rest(self):
        """All islands serve the newest version, and nothing is in flight anywhere."""
        self.wait_for_version(self.head)
        counts = ("in_flight", "queued", "waiting")
        self.wait_for(lambda facts: not any(facts["gateway"][count] for count in counts) and all(
            one["in_flight"] == 0 for one in facts["islands"]), "the gateway is at rest")
        for one in self.islands:
            harness.wait_until(lambda one=one: one.info()["in_flight"] == 0, f"{one.name} at rest")
            harness.wait_until(lambda one=one: one.engine.state()["running"] == 0,
                               f"{one.name}'s engine at rest")
        events = [event for event in self.gateway.get("/events")[1]
                  if event["event"] == "promise_broken"]
        self.assertEqual(events, [])

    def assert_recorded(self, clients):
        self.assertEqual(self.process.stop(), 0, self.process.tail())
        lines = {}
        for text in launch.isthmus("rollouts", self.dir / "rollouts").splitlines():
            line = harness.json.loads(text)
            self.assertNotIn(line["id"], lines)
            lines[line["id"]] = line
        got = {request_id: answer for client in clients for request_id, answer in client.whole.items()}
        self.assertEqual(sorted(got.keys() - lines.keys()), [], "not recorded")
        for request_id, (head, answers) in got.items():
            self.assert_same(lines[request_id], head, answers)

    def assert_same(self, line, head, answers):
        """The line of a rollout says what its client got."""
        self.assertEqual((line["run"], line["island"], line["status"]),
                         ("run", head["Isthmus-Island"], 200))
        self.assertEqual((line["version_start"], line["version_end"]),
                         island.versions(answers[-1]), line)
        self.assertEqual(version_of(head), line["version_start"])
        if not line.get("streamed"):
            self.assertEqual(line["answer"], answers[0])
            return
        pieces = [choice for answer in answers for choice in answer["choices"]]
        got = line["answer"]["choices"][0]
        self.assertEqual(got["finish_reason"], pieces[-1]["finish_reason"])
        text = got["text"] if "text" in got else got["message"]["content"]
        self.assertEqual(text, "".join(piece["text"] if "text" in piece else
                                       piece["delta"].get("content") or "" for piece in pieces))


def version_of(head):
    return int(head["Isthmus-Version-Start"])


if __name__ == "__main__":
    unittest.main()
