#!/usr/bin/env python3
"""Measures the gateway: next to no proxy, nginx and two routers, in front of the same islands.

gateway_job.py [--rounds N] [--build DIR]

The islands stamp what they answer and are otherwise as fast as they can. The routers are installed
from PyPI into .venv-routers; what cannot be installed or does not start is left out, and said. In each
round all ways are measured in turn, and a ratio or difference is the median of those within a
round. Prints CSV; docs/benchmarks.md explains it.
"""

import argparse
import json
import operator
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

import gateway_fleet
from proxy_island import BenchError, HOST
from proxy_job import BUSY, ROOT, SHARED_MEMORY, Measurements, in_turn

MIN_OF_ROUTERS, MIN_OF_NGINX = 3, 0.6
MAX_ADDED_P50_US, MAX_ADDED_P99_US = 200, 2000
WANTED_STREAMS, MAX_STREAMS_MB = 10_000, 300

BUSY_MS, LONE_MS = 1000, 1000
RATE, PACED_MS = 200, 3000
# Streams begin within the ramp; each of their events but the first comes after a silence.
RAMP_S, SILENCE_S, EVENTS = 15, 15, 4
DESCRIPTORS_LEFT = 100  # of a gateway, that are no streams'
ISLANDS = 4
KILL_S, DOWN_S, HOLD_MS = 4, 2, 50


def busy_round(fleet, results, case, number):
    for way in in_turn(fleet.ways, number):
        watched = fleet.watched.get(way)
        before = watched.cpu_seconds() if watched else 0
        found = fleet.measure("load", fleet.ways[way], "--connections", BUSY, "--time-ms", BUSY_MS,
                              "--warm-up-ms", 200)
        results.add(f"{case} {way}", found["per_second"])
        results.add(f"{case} p99 {way}", found["p99_us"])
        if watched:  # the warm-up is in it
            served = found["per_second"] * (BUSY_MS + 200) / 1e3
            results.add(f"{case} CPU {way}", (watched.cpu_seconds() - before) / served * 1e6)


def low_round(fleet, results, number):
    for way in in_turn(fleet.ways, number):
        lone = fleet.measure("load", fleet.ways[way], "--connections", 1, "--time-ms", LONE_MS)
        paced = fleet.measure("paced", fleet.ways[way], "--rate", RATE, "--time-ms", PACED_MS)
        for case, found in (("lone", lone), ("paced", paced)):
            for name in ("p50", "p99"):
                results.add(f"{case} {name} {way}", found[f"{name}_us"])


def compare(arguments, folder, results):
    routers = gateway_fleet.install_routers()
    for count in (ISLANDS, 1):
        with gateway_fleet.Islands(arguments.build, folder, count) as fleet:
            fleet.start_nginx()
            fleet.start_routers(routers)
            for number in range(arguments.rounds):
                busy_round(fleet, results, f"busy {count}", number)


def low_load(arguments, folder, results):
    with gateway_fleet.Islands(arguments.build, folder, ISLANDS) as fleet:
        fleet.start_nginx()
        for number in range(arguments.rounds):
            low_round(fleet, results, number)


def most_streams():
    """That a gateway can have: two descriptors each."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return min(WANTED_STREAMS, (most - DESCRIPTORS_LEFT) // 2)


def idle_streams(arguments, folder, results):
    streams = most_streams()
    options = ("--island-in-flight", WANTED_STREAMS)
    with gateway_fleet.Islands(arguments.build, folder, ISLANDS, gateway_options=options) as fleet:
        gateway = fleet.watched["gateway"]
        results.add("streams memory before", gateway.memory("VmRSS") / 1e6)
        child = subprocess.Popen(
            [fleet.bench, "streams", f"http://{HOST}:{fleet.gateway}", "--streams", str(streams),
             "--events", str(EVENTS), "--interval-us", str(SILENCE_S * 1_000_000), "--ramp-ms",
             str(RAMP_S * 1000)], stdout=subprocess.PIPE, text=True)
        with child:
            end = time.monotonic() + RAMP_S + SILENCE_S
            while fleet.fleet()["gateway"]["in_flight"] < streams:
                if child.poll() is not None or time.monotonic() > end:
                    child.kill()
                    raise BenchError(f"{streams} streams at once did not come about")
                time.sleep(0.2)
            results.add("streams memory at once", gateway.memory("VmRSS") / 1e6)
            begin, before = time.monotonic(), gateway.cpu_seconds()
            found = json.loads(child.communicate()[0] or "{}")
            results.add("streams cores",
                        (gateway.cpu_seconds() - before) / (time.monotonic() - begin))
        if child.returncode != 0:
            raise BenchError("a stream was not whole, or its events not in order")
        results.add("streams p99", found["p99_us"] / 1e3)
        results.add("streams memory", gateway.memory("VmHWM") / 1e6)
        results.add("streams", streams)


def kill_in_turn(fleet, kills):
    for number in range(kills):
        port = fleet.ports[number % len(fleet.ports)]
        time.sleep(KILL_S - DOWN_S)
        fleet.kill_island(port)
        time.sleep(DOWN_S)
        fleet.start_island(port)


def kills(arguments, folder, results):
    """Islands are killed one after another, and come back, while requests flow."""
    count = 2 * ISLANDS
    for case, options in (("whole", ()), ("streams", ("--events", 10))):
        with gateway_fleet.Islands(arguments.build, folder, ISLANDS, apart=True) as fleet:
            killer = threading.Thread(target=kill_in_turn, args=(fleet, count))
            killer.start()
            found = fleet.measure("paced", fleet.gateway, "--rate", RATE, "--time-ms",
                                  (count * KILL_S + 1) * 1000, "--hold-ms", HOLD_MS, *options)
            killer.join()
            found["again"] = fleet.count_of('isthmus_gateway_attempts_total{result="failed"}')
        if found["first_failure"]:
            gateway_fleet.note(f"{case}: {found['first_failure']}")
        for name in ("requests", "again", "failed", "cut_off"):
            results.add(f"kills {case} {name}", found[name])
        results.add("kills", count)


def row(case, metric, value, unit, at_least=None, at_most=None):
    target, met = "", ""
    if at_least is not None:
        target, met = f">= {at_least:g}", "yes" if value >= at_least else "no"
    if at_most is not None:
        target, met = f"<= {at_most:g}", "yes" if value <= at_most else "no"
    print(f"gateway,{case},{metric},{value:.4g},{unit},{target},{met}")


def print_busy(results, count, ways):
    case = f"small answers on {BUSY} connections; {count} island{'s' if count > 1 else ''}"
    name = f"busy {count}"
    for metric, part, unit in (("requests/s", "", "/s"), ("p99", " p99", "µs"),
                               ("CPU time a request", " CPU", "µs")):
        for way in ways:
            if results.has(f"{name}{part} {way}"):
                row(case, f"{metric}: {way}", results.median(f"{name}{part} {way}"), unit)
    for way in ways:
        if way in ("direct", "gateway") or not results.has(f"{name} {way}"):
            continue
        ratio = results.of_pairs(operator.truediv, f"{name} gateway", f"{name} {way}")
        bound = MIN_OF_NGINX if way == "nginx" else MIN_OF_ROUTERS
        row(case, f"requests/s of the gateway / {way}", ratio, "ratio", at_least=bound)


def print_low(results):
    for name, case in (("lone", "small answers on 1 connection"),
                       ("paced", f"{RATE} small answers a second")):
        for part, bound in (("p50", MAX_ADDED_P50_US), ("p99", MAX_ADDED_P99_US)):
            for way in ("direct", "nginx", "gateway"):
                if results.has(f"{name} {part} {way}"):
                    row(case, f"{part}: {way}", results.median(f"{name} {part} {way}"), "µs")
            added = lambda way: results.of_pairs(operator.sub, f"{name} {part} {way}",
                                                 f"{name} {part} direct")
            if results.has(f"{name} {part} nginx"):
                row(case, f"added {part}: nginx", added("nginx"), "µs")
            row(case, f"added {part}", added("gateway"), "µs", at_most=bound)


def print_streams(results):
    streams = int(results.median("streams"))
    get = results.median
    case = f"{streams} idle streams"
    row(case, "whole and in order", streams, "streams", at_least=streams)  # or the run had failed
    row(case, "peak memory", get("streams memory"), "MB", at_most=MAX_STREAMS_MB)
    row(case, "memory before", get("streams memory before"), "MB")
    each = (get("streams memory") - get("streams memory before")) / streams
    row(case, "memory a stream", each * 1000, "kB")
    if streams < WANTED_STREAMS:
        row(case, f"peak memory; as of {WANTED_STREAMS}",
            get("streams memory before") + each * WANTED_STREAMS, "MB", at_most=MAX_STREAMS_MB)
    row(case, "CPU", get("streams cores"), "cores")
    row(case, "p99 of an event", get("streams p99"), "ms")


def print_kills(results):
    for case, what in (("whole", f"answers after {HOLD_MS} ms"),
                       ("streams", f"streams of 10 events; {HOLD_MS} ms apart")):
        get = lambda name, of=case: results.median(f"kills {of} {name}")
        title = f"{results.median('kills'):.0f} islands killed under {RATE} requests/s; {what}"
        row(title, "requests", get("requests"), "requests")
        row(title, "attempts at islands that failed", get("again"), "attempts")
        row(title, "failed before a byte was sent", get("failed"), "requests", at_most=0)
        row(title, "cut off after that", get("cut_off"), "requests")


def run(arguments, folder):
    results = Measurements()
    load = os.getloadavg()[0]
    if arguments.only in (None, "busy"):
        compare(arguments, folder, results)
    for name, part in (("low", low_load), ("streams", idle_streams), ("kills", kills)):
        if arguments.only in (None, name):
            part(arguments, folder, results)
    print("bench,case,metric,value,unit,target,met")
    row("machine", "load average before", load, "1")
    ways = ["direct", "gateway", "nginx", *(f"{name} {setting}" for name in gateway_fleet.QUIET
                                            for setting in gateway_fleet.SETTINGS)]
    if arguments.only in (None, "busy"):
        for count in (ISLANDS, 1):
            print_busy(results, count, ways)
    for name, part in (("low", print_low), ("streams", print_streams), ("kills", print_kills)):
        if arguments.only in (None, name):
            part(results)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=("busy", "low", "streams", "kills"))
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
        sys.exit(f"gateway: {error}")
