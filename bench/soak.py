#!/usr/bin/env python3
"""Hours of the same work: does the sidecar's memory stay what it is?

soak.py [--minutes M] [--build DIR] [--csv FILE]

An engine that answers at once, a sidecar in front of it, and for M minutes (default 60) in turn:
a burst of small answers, a hundred event streams, one large answer, and a new version. Every ten
seconds the sidecar's resident memory is read. Prints the medians of the first and the last quarter
after a warm-up, and exits with 1 if memory grew by more than 5 % and 1 MiB, or if the sidecar was
not ready in the end.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

from proxy_island import BenchError, Island

ROOT = pathlib.Path(__file__).resolve().parent.parent
SAMPLE_SECONDS = 10
WARM_UP = 0.1  # of the time: pools and caches fill
MOST_GROWTH, SLACK_BYTES = 1.05, 1 << 20
LARGE_BYTES = 8 << 20


def work(island):
    """One turn of about a second, at a fraction of what the sidecar can do."""
    island.measure("load", island.sidecar, "--connections", 4, "--warm-up-ms", 1, "--time-ms", 500)
    island.measure("streams", island.sidecar, "--streams", 100, "--events", 10, "--interval-us",
                   50_000)
    island.measure("large", island.sidecar, "--bytes", LARGE_BYTES, "--connections", 1,
                   "--answers", 1)
    island.switch()


def soak(island, minutes):
    """[(second, bytes)] and the number of turns.

    A busy machine may spoil a turn, which is told; two in a row end it.
    """
    begin, turns, samples, due, spoilt = time.monotonic(), 0, [], 0.0, 0
    while (now := time.monotonic() - begin) < 60 * minutes:
        try:
            work(island)
            spoilt = 0
        except BenchError as error:
            spoilt += 1
            print(f"turn {turns}, second {now:.0f}: {error}\n{island.info()}", flush=True)
            if spoilt > 1:
                raise
        turns += 1
        if now >= due:
            samples.append((now, island.watched["sidecar"].memory("VmRSS")))
            due = now + SAMPLE_SECONDS
        time.sleep(0.5)  # bounded requests: the question is time, not load
    return samples, turns


def verdict(samples):
    """(median of the first quarter, of the last, whether that is flat)"""
    steady = [size for _, size in samples[int(len(samples) * WARM_UP):]]
    quarter = max(1, len(steady) // 4)
    first, last = statistics.median(steady[:quarter]), statistics.median(steady[-quarter:])
    return first, last, last <= max(first * MOST_GROWTH, first + SLACK_BYTES)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--csv", type=pathlib.Path, help="second,bytes of every sample")
    arguments = parser.parse_args()
    scratch = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="isthmus-soak-", dir=scratch) as folder, \
            Island(arguments.build, pathlib.Path(folder)) as island:
        samples, turns = soak(island, arguments.minutes)
        info = island.info()
    first, last, flat = verdict(samples)
    if arguments.csv:
        arguments.csv.write_text("second,bytes\n" + "".join(f"{s:.0f},{b}\n" for s, b in samples))
    print(f"{arguments.minutes:g} minutes, {turns} turns, {info['applied']} versions: "
          f"{first / 2**20:.1f} MiB at first, {last / 2**20:.1f} MiB at last, "
          f"{'flat' if flat else 'GROWN'}; {'ready' if info['ready'] else info['reason']}")
    return 0 if flat and info["ready"] else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        sys.exit(f"soak: {error}")
