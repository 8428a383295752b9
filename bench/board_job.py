#!/usr/bin/env python3
"""Measures boards of long runs: what a join fetches, how fast the newest version is found.

board_job.py [--versions N] [--mib N] [--folder DIR] [--build DIR]

Publishes N versions (1,000) of a BF16 checkpoint of so many MiB (256), each with 0.5 % of its
elements changed, drawn anew each time: the worst case for squashing, for a real run changes much the
same elements again. `isthmus board tend` adds anchors and skip patches after every 8 of them. Then
the last 80 versions are joined from nothing. Then a log of 10,000 entries is written as it would be
committed, and a process opens the board and finds its head. Prints CSV; docs/benchmarks.md explains it.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED_MEMORY = pathlib.Path("/dev/shm")
DENSITY = 0.005
SEED = 7
TENDED_EVERY, JOINS_OVER, JOIN_EVERY = 8, 80, 8
LOG_ENTRIES, LOG_RUNS = 10_000, 7

# The goals of the project.
MAX_FETCHED, MAX_PATCHES = 1.25, 12
MAX_HEAD_MS = 50


class BenchError(Exception):
    pass


def note(text):
    print(f"board: {text}", file=sys.stderr, flush=True)


def row(case, metric, value, unit, most=None):
    target, met = ("", "") if most is None else (f"<= {most}", "yes" if value <= most else "no")
    print(f"board,{case},{metric},{value:.4g},{unit},{target},{met}", flush=True)


class Model:
    """One BF16 tensor of normal weights; a step moves some to the next bits up or down."""

    def __init__(self, folder, mib, density=DENSITY):
        self.folder, self.random = folder, numpy.random.default_rng(SEED)
        self.density = density
        folder.mkdir()
        self.count = mib << 19
        header = json.dumps({"w": {"dtype": "BF16", "shape": [self.count >> 10, 1 << 10],
                                   "data_offsets": [0, 2 * self.count]}}).encode()
        header += b" " * (-len(header) % 8)
        self.file = folder / "model.safetensors"
        weights = self.random.standard_normal(self.count, dtype=numpy.float32) * 0.02
        with open(self.file, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.write((weights.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes())
        self.weights = numpy.memmap(self.file, numpy.uint16, "r+", 8 + len(header))
        (folder / "config.json").write_text('{"model_type":"bench"}')

    def step(self):
        at = self.random.integers(0, self.count, int(self.density * self.count))
        self.weights[at] += self.random.choice(numpy.array([1, 65535], numpy.uint16), len(at))
        self.weights.flush()


class Bench:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.run_options = ("--board", folder / "board", "--run", "r")
        self.isthmus("board", "init", folder / "board")

    def isthmus(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments), "--json"],
                              stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise BenchError(f"exit status {done.returncode} of: isthmus {arguments}")
        return json.loads(done.stdout)

    def long_run(self, model, versions):
        began, published, tended = time.monotonic(), 0, 0
        for version in range(1, versions + 1):
            if version > 1:
                model.step()
            published += self.isthmus("publish", model.folder, *self.run_options, "--baseline",
                                      self.folder / "baseline")["payload_bytes"]
            if version % TENDED_EVERY == 0:
                tended += self.isthmus("board", "tend", *self.run_options, "--dir",
                                       self.folder / "tend")["stored_bytes"]
            if version % 100 == 0:
                note(f"{version} versions, {time.monotonic() - began:.0f} s")
        return published, tended

    def join(self, version):
        """(bytes fetched, patches applied)"""
        replica = self.folder / "replica"
        pulled = self.isthmus("pull", *self.run_options, "--replica", replica, "--version", version)
        shutil.rmtree(replica)
        return pulled["fetched_bytes"], sum(step.startswith("patch") for step in pulled["chain"])

    def report(self, model, versions):
        case = f"{versions} versions of {model.file.stat().st_size >> 20} MiB with 0.5 % changed"
        published, tended = self.long_run(model, versions)
        joins = [self.join(version)
                 for version in range(versions, max(versions - JOINS_OVER, 1), -JOIN_EVERY)]
        checkpoint = model.file.stat().st_size
        row(case, "join: bytes fetched / checkpoint at most",
            max(fetched for fetched, _ in joins) / checkpoint, "ratio", MAX_FETCHED)
        row(case, "join: patches applied at most", max(count for _, count in joins), "patches",
            MAX_PATCHES)
        row(case, "join: bytes fetched / checkpoint at the median",
            statistics.median(fetched for fetched, _ in joins) / checkpoint, "ratio")
        patches = published - checkpoint
        row(case, "checkpoint / a patch", checkpoint * (versions - 1) / patches, "ratio")
        row(case, "anchors and skip patches / patches", tended / patches, "ratio")

    def log_of(self, entries):
        """A run with so many entries, each as the program wrote it, but for numbers."""
        log = self.folder / "board" / "runs" / "r" / "log"
        text = (log / f"{2:010}.json").read_text()
        target = self.folder / "board" / "runs" / "long"
        (target / "log").mkdir(parents=True)
        text = text.replace('"run":"r"', '"run":"long"').replace("runs/r/", "runs/long/")
        for version in range(1, entries + 1):
            parent = "null" if version == 1 else str(version - 1)
            entry = text.replace('"version":2', f'"version":{version}', 1)
            entry = entry.replace('"parent":1', f'"parent":{parent}', 1)
            entry = entry.replace('"base":1', f'"base":{max(version - 1, 1)}', 1)
            (target / "log" / f"{version:010}.json").write_text(entry)

    def report_log(self):
        """A process that opens the board and finds the heads of its runs, from all it holds."""
        self.log_of(LOG_ENTRIES)
        times = []
        for _ in range(LOG_RUNS):
            began = time.monotonic()
            shown = self.isthmus("inspect", self.folder / "board")
            times.append((time.monotonic() - began) * 1e3)
        heads = {run["run"]: run["head"] for run in shown["runs"]}
        if heads["long"] != LOG_ENTRIES:
            raise BenchError(f"found {heads}")
        row(f"log of {LOG_ENTRIES} versions", "a process opens the board and finds the head",
            statistics.median(times), "ms", MAX_HEAD_MS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--versions", type=int, default=1000)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    arguments = parser.parse_args()
    parent = arguments.folder or (SHARED_MEMORY if SHARED_MEMORY.is_dir() else None)
    print("bench,case,metric,value,unit,target,met")
    with tempfile.TemporaryDirectory(prefix="isthmus-board-", dir=parent) as folder:
        folder = pathlib.Path(folder)
        bench = Bench(arguments.build / "isthmus", folder)
        bench.report(Model(folder / "model", arguments.mib), arguments.versions)
        bench.report_log()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        sys.exit(f"board: {error}")
