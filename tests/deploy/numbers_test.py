#!/usr/bin/env python3
"""The programs expose the numbers that docs/operations.md lists, all of them and no others."""

import re
import subprocess
import sys
import unittest

import deployed
import documented

for folder in ("sidecar", "relay"):
    sys.path.insert(0, str(deployed.ROOT / "tests" / folder))
import island  # noqa: E402

DEADLINE_S = island.harness.DEADLINE_S


def exposed(text):
    return set(re.findall(r"(?m)^# TYPE (\S+) ", text))


def value(text, name, **labels):
    """Of the one series that has these labels."""
    found = [line.rsplit(" ", 1)[1] for line in text.splitlines() if re.match(rf"{name}[{{ ]", line)
             and all(f'{key}="{wanted}"' in line for key, wanted in labels.items())]
    if len(found) != 1:
        raise AssertionError(f"{name} {labels}: {found}")
    return float(found[0])


class SidecarTest(island.IslandTest):

    def numbers(self):
        return self.sidecar.get("/metrics")[1]

    def test_it_exposes_what_is_documented(self):
        self.release()
        self.assertEqual(exposed(self.numbers()), documented.numbers()["sidecar"])

    def test_its_state_and_what_a_version_costs(self):
        self.assertEqual(value(self.numbers(), "isthmus_sidecar_state", state="ready"), 1)
        self.assertEqual(value(self.numbers(), "isthmus_sidecar_state", state="poisoned"), 0)
        self.assertEqual(value(self.numbers(), "isthmus_sidecar_updates_total", kind="switch", result="failed"), 0)
        self.release(2)
        update = self.wait_for(lambda info: info["last_update"]["to"] == 3, "the switch is over")["last_update"]
        self.assertEqual(value(self.numbers(), "isthmus_sidecar_switch_version_bytes"),
                         update["fetched_bytes"] / (update["to"] - update["from"]))
        self.assertGreater(update["fetched_bytes"], 0)

    def test_a_poisoned_island_says_so(self):
        self.engine.plan("/collective_rpc", "error", count=100)
        self.publish()
        self.wake()
        island.harness.wait_until(
            lambda: value(self.numbers(), "isthmus_sidecar_state", state="poisoned")
            + value(self.numbers(), "isthmus_sidecar_state", state="reseeding") > 0, "a failed load", DEADLINE_S)
        self.assertEqual(value(self.numbers(), "isthmus_sidecar_state", state="ready"), 0)


class OthersTest(island.harness.ServerTest):

    def start(self, *command):
        process = subprocess.Popen([deployed.PROGRAM, *map(str, command), "--json"], env=deployed.ENVIRONMENT,
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, DEADLINE_S)
        self.addCleanup(process.terminate)
        port = int(re.search(r'"listening":"http://127\.0\.0\.1:(\d+)"', process.stdout.readline())[1])
        return island.harness.Client(port)

    def test_a_relay_exposes_what_is_documented(self):
        island.launch.isthmus("board", "init", self.dir / "board")
        relay = self.start("board", "serve", self.dir / "board", "--listen", "127.0.0.1:0", "--cache", self.dir / "cache")
        self.assertEqual(exposed(relay.get("/metrics")[1]), documented.numbers()["relay"])

    @unittest.skipUnless(deployed.has_command("gateway"), "this program has no command gateway")
    def test_a_gateway_exposes_what_is_documented(self):
        """What has a label that only an island or a request gives it may not be there yet."""
        gateway = self.start("gateway", "--listen", "127.0.0.1:0", "--island", "http://127.0.0.1:9")
        found, listed = exposed(gateway.get("/metrics")[1]), documented.numbers()["gateway"]
        of_runs = {"isthmus_gateway_islands", "isthmus_gateway_version_islands", "isthmus_gateway_newest_version",
                   "isthmus_gateway_lag_versions", "isthmus_gateway_session_lag_versions"}
        self.assertEqual(found - listed, set())
        self.assertEqual(listed - found - of_runs, set())


if __name__ == "__main__":
    deployed.main()
