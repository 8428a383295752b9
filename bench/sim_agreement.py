#!/usr/bin/env python3
"""Whether the simulator agrees with a real fleet: sim_agreement.py [--build DIR] [--seconds N] [--scenario FILE]

Eight sidecars, each in front of an engine of known pace (paced_engine.py), follow a board on which a
version is published every --cadence seconds, while --in-flight clients ask for rollouts through a
gateway. First, without load, what one request and one switch take is measured; these times, and
nothing of the run itself, go into a scenario (--scenario FILE keeps it). Then the run and `isthmus
simulate` are compared. Prints CSV: both values, and their ratio, which is to be within 15 %.

--direct: without a gateway, clients go to the islands in turn. This is for trying the bench only.
"""

import argparse
import collections
import concurrent.futures
import http.client
import itertools
import json
import math
import os
import pathlib
import random
import re
import statistics
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
ISLANDS = 8
TOKENS = {"mean_tokens": 30, "sigma": 0.5, "max_tokens": 120}
POLL_S = 3
CALIBRATION_VERSIONS = 3
GOAL = 0.15
WAIT_MS = 60_000

Answer = collections.namedtuple("Answer", "begun ended start end lag_start lag_end")


def row(case, metric, value, unit, goal="", met=""):
    print(f"sim,{case},{metric},{value:.4g},{unit},{goal},{met}", flush=True)


class Fleet:
    """The board, the engines, the sidecars and the gateway."""

    def __init__(self, folder, options, versions):
        sys.path[:0] = [str(ROOT / "tests" / "sidecar")]
        import island
        import launch
        self.island, self.options, self.launch = island, options, launch
        self.folder = folder
        self.steps = [island.checkpoint(number) for number in range(versions + 1)]
        self.board = launch.Run(folder)
        self.published = 0
        self.publish_s = []
        self.publish()
        self.engines = [island.harness.Server(
            ROOT / "bench" / "paced_engine.py", self.steps[0], "--token-ms", options.token_ms,
            "--load-ms", options.load_ms) for _ in range(ISLANDS)]
        self.gateway = None if options.direct else self._start_gateway()
        self.sidecars = []
        for number in range(ISLANDS):  # so that they read the log at different instants
            self.sidecars.append(self._start_sidecar(number))
            time.sleep(POLL_S / ISLANDS)
        self.ports = [sidecar.port for sidecar in self.sidecars]

    def _start_gateway(self):
        gateway = self.launch.Process((self.launch.program(), "gateway", "--listen", "127.0.0.1:0"),
                                      self.folder / "gateway.log")
        listening = re.compile(r"^listening on https?://127\.0\.0\.1:(\d+)$", re.MULTILINE)
        gateway.port = int(gateway.wait_until(
            lambda: listening.search(gateway.log.read_text(errors="replace")), "isthmus gateway",
            60)[1])
        return gateway

    def _start_sidecar(self, number):
        more = () if self.gateway is None else (
            "--gateway", f"http://127.0.0.1:{self.gateway.port}", "--island-id", f"island-{number}")
        return self.launch.Sidecar(
            self.board.board, self.board.name, self.folder / f"replica-{number}",
            [f"vllm:http://127.0.0.1:{self.engines[number].port}"],
            self.folder / f"sidecar-{number}.log", "--poll-ms", int(POLL_S * 1000), "--threads", 1,
            "--event-log", self.folder / f"events-{number}.jsonl", *more)

    def stop(self):
        for process in (*self.sidecars, *([self.gateway] if self.gateway else [])):
            process.kill()
        for engine in self.engines:
            engine.stop()

    def publish(self):
        self.published += 1
        begun = time.monotonic()
        self.board.publish(self.steps[self.published])
        self.publish_s.append(time.monotonic() - begun)

    def info(self, number):
        return ask(self.ports[number], "GET", "/server_info")[2]

    def wait_for_version(self, version):
        deadline = time.monotonic() + 60
        while any((info := self.info(n)).get("applied") != version or not info["ready"]
                  for n in range(ISLANDS)):
            if time.monotonic() > deadline:
                raise SystemExit(f"version {version} is not served everywhere after 60 s")
            time.sleep(0.05)

    def updates(self, first, last):
        """The switches of all sidecars to versions between these, as they logged them."""
        found = []
        for number in range(ISLANDS):
            with open(self.folder / f"events-{number}.jsonl", encoding="utf-8") as lines:
                for line in lines:
                    event = json.loads(line)
                    if event.get("event") == "updated" and event.get("kind") == "switch":
                        if first <= event["to"] <= last:
                            found.append(event)
        return found

    def entry(self, port):
        return port if self.gateway is None else self.gateway.port


def ask(port, method, path, body=None, headers=None):
    """(status, headers, JSON)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        text = answer.read()
        try:
            return answer.status, answer.headers, json.loads(text)
        except json.JSONDecodeError as error:
            raise SystemExit(f"{method} {path}: no JSON: {error}: …{text[-300:]!r}") from error
    finally:
        connection.close()


class Heads:
    """Without a gateway: the newest version that any island has read of, as a gateway would know."""

    def __init__(self, fleet):
        self.newest, self._fleet, self._over = 0, fleet, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self):
        while not self._over.wait(0.1):
            for number in range(ISLANDS):
                self.newest = max(self.newest, self._fleet.info(number)["board"]["head"] or 0)

    def stop(self):
        self._over.set()
        self._thread.join()


class Clients:
    """Closed loops: each client asks for the next rollout when it has the last one."""

    def __init__(self, fleet, options):
        self.fleet, self.options = fleet, options
        self.heads = Heads(fleet) if fleet.gateway is None else None
        self.ports = itertools.cycle(fleet.ports)
        self.answers, self.refused = [], 0
        self._over = threading.Event()

    def rollout(self, tokens):
        port = self.fleet.entry(next(self.ports))
        newest = self.heads.newest if self.heads else None
        begun = time.monotonic()
        status, headers, answer = ask(
            port, "POST", "/v1/completions", {"prompt": "once", "max_tokens": tokens},
            {"Isthmus-Wait-Ms": str(WAIT_MS)})
        if status != 200:
            self.refused += 1
            return None
        start, end = answer["weight_version_start"], answer["weight_version_end"]
        if self.heads is None:
            lags = int(headers["Isthmus-Lag-Start"]), int(headers["Isthmus-Lag-End"])
        else:
            lags = max(0, newest - start), max(0, self.heads.newest - end)
        return Answer(begun, time.monotonic(), start, end, *lags)

    def _loop(self, seed):
        drawn = random.Random(seed)
        while not self._over.is_set():
            tokens = round(drawn.lognormvariate(math.log(TOKENS["mean_tokens"])
                                                - TOKENS["sigma"] ** 2 / 2, TOKENS["sigma"]))
            answer = self.rollout(max(1, min(tokens, TOKENS["max_tokens"])))
            if answer is None:
                time.sleep(1)
            else:
                self.answers.append(answer)

    def run(self, publish, count, cadence):
        """So many versions while they run. (begun, ended) of the time that counts."""
        with concurrent.futures.ThreadPoolExecutor(self.options.in_flight + 1) as pool:
            loops = [pool.submit(self._loop, seed) for seed in range(self.options.in_flight)]
            try:
                time.sleep(5)  # the beginning, when all begin at once, does not count
                begun = time.monotonic()
                for number in range(count):
                    time.sleep(max(0, begun + number * cadence - time.monotonic()))
                    publish()
                time.sleep(max(0, begun + count * cadence - time.monotonic()))
                ended = time.monotonic()
            finally:
                self._over.set()
                if self.heads:
                    self.heads.stop()
            for loop in loops:
                loop.result()
        return begun, ended


def measure_requests(clients):
    """(seconds a token, seconds beside the tokens) of a request on idle engines."""
    def median(tokens):
        times = [clients.rollout(tokens) for _ in range(2 * ISLANDS)]
        return statistics.median(answer.ended - answer.begun for answer in times)
    few, many = 5, 25
    short, long = median(few), median(many)
    token_s = (long - short) / (many - few)
    return token_s, max(0.0, short - few * token_s)


def mean(updates, *fields):
    return statistics.mean(sum(update[field] for field in fields) for update in updates)


def calibrate(fleet, clients, options):
    """The scenario's times, on a fleet without load."""
    fleet.wait_for_version(1)
    token_s, beside_s = measure_requests(clients)
    for _ in range(CALIBRATION_VERSIONS):
        fleet.publish()
        fleet.wait_for_version(fleet.published)
    updates = fleet.updates(2, fleet.published)
    size = sum(file.stat().st_size for file in fleet.steps[0].rglob("*") if file.is_file())
    return {
        "comment": "Times of a fleet on one machine, as bench/sim_agreement.py measured them",
        "hours": 2,
        "model": {"checkpoint_bytes": size,
                  "patch_bytes": mean(updates, "fetched_bytes"),
                  "diff_bytes_per_s": size / statistics.median(fleet.publish_s[1:]),
                  "apply_bytes_per_s": size * 1000 / mean(updates, "stage_ms")},
        "trainer": {"mode": "cadence", "step_s": options.cadence, "in_flight": options.in_flight},
        "rollouts": TOKENS,
        "policy": {"wait_s": WAIT_MS / 1000, "poll_s": POLL_S},
        "engine": {"tokens_per_s": options.in_flight / token_s,
                   "request_tokens_per_s": 1 / token_s, "slots": options.in_flight,
                   "pause_s": mean(updates, "pause_ms") / 1000,
                   "load_s": mean(updates, "load_ms", "flush_ms", "verify_ms", "resume_ms") / 1000,
                   "canary_s": mean(updates, "canary_ms") / 1000},
        "regions": [{"name": "here", "islands": ISLANDS, "latency_ms": beside_s * 1000 / 2}]}


def measured(fleet, clients, span, first):
    begun, ended = span
    seconds = ended - begun
    answers = [a for a in clients.answers if begun <= a.ended < ended]
    # A switch that the end cut off is another one's that the beginning did.
    updates = fleet.updates(first, fleet.published)
    return {"rollouts an hour": len(answers) * 3600 / seconds,
            "mean lag at admission": statistics.mean(a.lag_start for a in answers),
            "mean lag at the end": statistics.mean(a.lag_end for a in answers),
            "time lost to switches": sum(u["closed_ms"] for u in updates) / 1000 / seconds / ISLANDS,
            "fetched an hour": sum(u["fetched_bytes"] for u in updates) * 3600 / seconds}


def simulated(fleet, scenario):
    said = json.loads(fleet.launch.isthmus("simulate", scenario, "--publish", "patches", "--json"))
    side = said["patches"]
    hours = side["simulated_s"] / 3600
    lost = side["spent"]["drain_s"] + side["spent"]["pause_s"]
    return {"rollouts an hour": side["rollouts_per_hour"],
            "mean lag at admission": side["lag_start"]["mean"],
            "mean lag at the end": side["lag_end"]["mean"],
            "time lost to switches": lost / side["simulated_s"] / side["islands"],
            "fetched an hour": sum(r["planned_bytes"] for r in side["regions"]) / hours}


UNITS = {"rollouts an hour": "1/h", "mean lag at admission": "versions",
         "mean lag at the end": "versions", "time lost to switches": "share of time",
         "fetched an hour": "bytes/h"}


def compare(real, simulation):
    for metric, unit in UNITS.items():
        row("8 islands measured", metric, real[metric], unit)
        row("8 islands simulated", metric, simulation[metric], unit)
        ratio = simulation[metric] / real[metric] if real[metric] else math.inf
        row("8 islands", f"{metric}: simulated / measured", ratio, "ratio",
            f"{1 - GOAL:.2f}..{1 + GOAL:.2f}", "yes" if abs(ratio - 1) <= GOAL else "no")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--seconds", type=int, default=180)
    parser.add_argument("--cadence", type=float, default=7.3)
    parser.add_argument("--in-flight", type=int, default=40)
    parser.add_argument("--token-ms", type=float, default=100)
    parser.add_argument("--load-ms", type=float, default=500)
    parser.add_argument("--scenario", type=pathlib.Path)
    parser.add_argument("--direct", action="store_true")
    options = parser.parse_args()
    os.environ["ISTHMUS_BIN"] = str(options.build / "isthmus")
    count = max(2, round(options.seconds / options.cadence))
    with tempfile.TemporaryDirectory(prefix="isthmus-agreement-") as folder:
        folder = pathlib.Path(folder)
        fleet = Fleet(folder, options, 1 + CALIBRATION_VERSIONS + count)
        try:
            clients = Clients(fleet, options)
            scenario = options.scenario or folder / "scenario.json"
            scenario.write_text(json.dumps(calibrate(fleet, clients, options), indent=1))
            first = fleet.published + 1
            clients.answers.clear()
            span = clients.run(fleet.publish, count, options.cadence)
            print("bench,case,metric,value,unit,target,met")
            row("8 islands measured", "requests refused", clients.refused, "requests")
            compare(measured(fleet, clients, span, first), simulated(fleet, scenario))
        finally:
            fleet.stop()


if __name__ == "__main__":
    main()
