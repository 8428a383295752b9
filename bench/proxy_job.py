#!/usr/bin/env python3
"""Measures the sidecar: next to no proxy and next to nginx, in front of the same engine.

proxy_job.py [--rounds N] [--build DIR]

Starts an engine that answers at once, a sidecar and nginx (one worker, keep-alive; without nginx
its rows are left out: package nginx-light). In each round all three ways to the engine are measured
in turn, and a ratio or difference is the median of those within a round. Prints CSV;
docs/benchmarks.md explains it.
"""

import argparse
import json
import operator
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

import proxy_island
from proxy_island import BenchError, HOST, ask

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED_MEMORY = pathlib.Path("/dev/shm")

# The goals of the project: of a ratio to nginx or a difference to no proxy.
MIN_THROUGHPUT, MAX_P99 = 0.7, 1.5
MAX_ADDED_US = 150
STREAMS, EVENTS, INTERVAL_US = 1000, 80, 50_000
MAX_ADDED_EVENT_MS, MAX_CORES, MAX_STREAMS_MB = 5, 1, 150
LARGE_BYTES, LARGE_AT_ONCE = 64 << 20, 4
MIN_LARGE_GBPS, MAX_LARGE_MB = 1, 2
TURNS, MAX_RELEASE_MS, MAX_OWN_MS = 1000, 10, 5

BUSY = 32  # connections that keep a proxy busy all the time
BUSY_MS, LONE_MS = 1000, 500
STREAM_ROUNDS, SWITCHES = 3, 5


def note(text):
    print(f"sidecar: {text}", file=sys.stderr, flush=True)


class Measurements:
    """Lists by name, one value a round."""

    def __init__(self):
        self.values = {}

    def add(self, name, value):
        self.values.setdefault(name, []).append(value)

    def has(self, name):
        return name in self.values

    def median(self, name):
        return statistics.median(self.values[name])

    def of_pairs(self, join, name, other):
        return statistics.median(map(join, self.values[name], self.values[other]))


def in_turn(ways, number):
    """Another one begins each round."""
    names = list(ways)
    shift = number % len(names)
    return names[shift:] + names[:shift]


def busy_round(island, results, number):
    for way in in_turn(island.small, number):
        watched = island.watched.get(way)
        before = watched.cpu_seconds() if watched else 0
        found = island.measure("load", island.small[way], "--connections", BUSY, "--time-ms",
                               BUSY_MS, "--warm-up-ms", 200)
        results.add(f"busy {way}", found["per_second"])
        results.add(f"busy p99 {way}", found["p99_us"])
        if watched:  # the warm-up is in it
            served = found["per_second"] * (BUSY_MS + 200) / 1e3
            results.add(f"busy CPU {way}", (watched.cpu_seconds() - before) / served * 1e6)


def lone_round(island, results, number):
    for way in in_turn(island.small, number):
        found = island.measure("load", island.small[way], "--connections", 1, "--time-ms", LONE_MS)
        results.add(f"lone p50 {way}", found["p50_us"])


def large_round(island, results, number):
    for way in in_turn(island.streams, number):
        found = island.measure("large", island.streams[way], "--bytes", LARGE_BYTES, "--answers", 4)
        results.add(f"large {way}", found["gigabytes_per_second"])


def large_memory(island, results):
    """Before anything else that takes memory: what is free in the process would hide it."""
    island.measure("load", island.sidecar, "--connections", BUSY, "--time-ms", 200)
    sidecar = island.watched["sidecar"]
    sidecar.reset_peak()
    before = sidecar.memory("VmRSS")
    island.measure("large", island.sidecar, "--bytes", LARGE_BYTES, "--connections", LARGE_AT_ONCE,
                   "--answers", 2)
    results.add("large memory", (sidecar.memory("VmHWM") - before) / LARGE_AT_ONCE / 1e6)


def streams_round(island, results, number):
    sidecar = island.watched["sidecar"]
    sidecar.reset_peak()
    for way in in_turn(island.streams, number):
        watched = island.watched.get(way)
        before = watched.cpu_seconds() if watched else 0
        found = island.measure("streams", island.streams[way], "--streams", STREAMS, "--events",
                               EVENTS, "--interval-us", INTERVAL_US)
        results.add(f"streams p50 {way}", found["p50_us"] / 1e3)
        results.add(f"streams p99 {way}", found["p99_us"] / 1e3)
        if watched:  # all of it, as if it had been spent while all streams went on
            seconds = EVENTS * INTERVAL_US / 1e6
            results.add(f"streams cores {way}", (watched.cpu_seconds() - before) / seconds)
    results.add("streams memory", sidecar.memory("VmHWM") / 1e6)


def waiting_round(island, results):
    """Turns that wait for the next version; what the engine sees when it has come."""
    ask(island.engine, "GET", "/bench/arrivals")
    child = subprocess.Popen([island.bench, "waiting", f"http://{HOST}:{island.sidecar}", "--turns",
                              str(TURNS), "--min-version", str(island.published + 1)],
                             stdout=subprocess.PIPE, text=True)
    with child:
        if child.stdout.readline() != "waiting\n":
            raise BenchError("the turns did not come to wait")
        island.switch()
        child.communicate()  # its last line has nothing new
    if child.returncode != 0:
        raise BenchError("the turns that waited were not all answered")
    seen = json.loads(ask(island.engine, "GET", "/bench/arrivals")[1])
    turns, times = zip(*seen["turns"])
    results.add("released", (max(times) - seen["canary_ns"]) / 1e6)
    results.add("spread", (max(times) - min(times)) / 1e6)
    results.add("in order", sum(turn == place for place, turn in enumerate(turns)))
    results.add("own_ms with waiting", island.info()["last_update"]["own_ms"])


def gate_round(island, results):
    found = island.measure_gate("--turns", TURNS)
    results.add("gate release", found["release_ms"])
    results.add("gate in order", found["in_order"])


def idle_switch_round(island, results):
    update = island.switch()
    for name in ("own_ms", "closed_ms"):
        results.add(name, update[name])


def row(case, metric, value, unit, at_least=None, at_most=None):
    target, met = "", ""
    if at_least is not None:
        target, met = f">= {at_least:g}", "yes" if value >= at_least else "no"
    if at_most is not None:
        target, met = f"<= {at_most:g}", "yes" if value <= at_most else "no"
    print(f"sidecar,{case},{metric},{value:.4g},{unit},{target},{met}")


def print_ways(results, case, metric, name, unit):
    for way in ("direct", "nginx", "sidecar"):
        if results.has(f"{name} {way}"):
            row(case, f"{metric}: {way}", results.median(f"{name} {way}"), unit)


def print_small(results):
    case = f"small answers on {BUSY} connections"
    print_ways(results, case, "requests/s", "busy", "/s")
    print_ways(results, case, "p99", "busy p99", "µs")
    print_ways(results, case, "CPU time a request", "busy CPU", "µs")
    if results.has("busy nginx"):
        ratio = lambda name: results.of_pairs(operator.truediv, f"{name} sidecar", f"{name} nginx")
        row(case, "requests/s / nginx", ratio("busy"), "ratio", at_least=MIN_THROUGHPUT)
        row(case, "p99 / nginx", ratio("busy p99"), "ratio", at_most=MAX_P99)
    case = "small answers on 1 connection"
    print_ways(results, case, "p50", "lone p50", "µs")
    print_added(results, case, "added p50", "lone p50", "µs", MAX_ADDED_US)


def print_added(results, case, metric, name, unit, bound):
    added = lambda way: results.of_pairs(operator.sub, f"{name} {way}", f"{name} direct")
    if results.has(f"{name} nginx"):
        row(case, f"{metric}: nginx", added("nginx"), unit)
    row(case, metric, added("sidecar"), unit, at_most=bound)


def print_streams(results):
    case = f"{STREAMS} streams of {1_000_000 // INTERVAL_US} events/s"
    print_ways(results, case, "p50", "streams p50", "ms")
    print_ways(results, case, "p99", "streams p99", "ms")
    print_added(results, case, "added p99", "streams p99", "ms", MAX_ADDED_EVENT_MS)
    # Or the run had failed.
    row(case, "whole and in order", STREAMS, "streams", at_least=STREAMS)
    if results.has("streams cores nginx"):
        row(case, "CPU: nginx", results.median("streams cores nginx"), "cores")
    row(case, "CPU", results.median("streams cores sidecar"), "cores", at_most=MAX_CORES)
    row(case, "peak memory", max(results.values["streams memory"]), "MB", at_most=MAX_STREAMS_MB)


def print_rest(results):
    case = "JSON answers of 64 MiB"
    print_ways(results, case, "speed", "large", "GB/s")
    row(case, "speed", results.median("large sidecar"), "GB/s", at_least=MIN_LARGE_GBPS)
    row(case, "memory a request", results.median("large memory"), "MB", at_most=MAX_LARGE_MB)
    case = f"{TURNS} requests wait for a version"
    row(case, "gate: opening to last admission", results.median("gate release"), "ms",
        at_most=MAX_RELEASE_MS)
    row(case, "gate: admitted in their order", min(results.values["gate in order"]), "requests",
        at_least=TURNS)
    row(case, "canary's answer to last arrival at the engine", results.median("released"), "ms",
        at_most=MAX_RELEASE_MS)
    row(case, "first to last arrival at the engine", results.median("spread"), "ms")
    row(case, "arrived at the engine in their order", min(results.values["in order"]), "requests",
        at_least=TURNS)
    own = "gate closed by neither requests nor engines"
    row(case, own, results.median("own_ms with waiting"), "ms", at_most=MAX_OWN_MS)
    row("switch without requests", "gate closed", results.median("closed_ms"), "ms")
    row("switch without requests", own, results.median("own_ms"), "ms", at_most=MAX_OWN_MS)


def run(arguments, folder):
    results = Measurements()
    with proxy_island.Island(arguments.build, folder) as island:
        if "nginx" not in island.small:
            note("no nginx, so nothing is compared with it (package nginx-light)")
        large_memory(island, results)
        for number in range(arguments.rounds):
            busy_round(island, results, number)
            lone_round(island, results, number)
            large_round(island, results, number)
        for number in range(STREAM_ROUNDS):
            streams_round(island, results, number)
        for _ in range(SWITCHES):
            gate_round(island, results)
            idle_switch_round(island, results)
            waiting_round(island, results)
    print("bench,case,metric,value,unit,target,met")
    for part in (print_small, print_streams, print_rest):
        part(results)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is ended
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="isthmus-bench-", dir=parent) as folder:
        run(arguments, pathlib.Path(folder))


if __name__ == "__main__":
    try:
        main()
    except (BenchError, OSError) as error:
        sys.exit(f"sidecar: {error}")
