#!/usr/bin/env python3
"""Times the pull of one patch from S3 (s3s-fs) over a long way: 100 ms there and back, 1 Gbit/s.

far_job.py [--mib N] [--density D] [--runs N] [--trace] [--folder DIR] [--build DIR]

A BF16 checkpoint of so many MiB of which a share D of the elements changes each time. Each round publishes
a version without the distance (a second server of the same folder) and pulls it with the distance
(far_link.py) into a replica that is one version behind. The ideal is the patch at the rate and two round
trips. --trace prints the requests of the last pull. Prints CSV; docs/benchmarks.md explains it.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from board_job import SHARED_MEMORY, Model
from far_link import FAR, FarLink

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "store"))
import servers  # noqa: E402

ROUND_TRIP_S, BYTES_PER_S = 0.1, 125_000_000
MAX_RATIO = 1.5
BOARD = f"s3://{servers.BUCKET}"


class BenchError(Exception):
    pass


def row(case, metric, value, unit, most=None):
    target, met = ("", "") if most is None else (f"<= {most}", "yes" if value <= most else "no")
    print(f"far,{case},{metric},{value:.4g},{unit},{target},{met}", flush=True)


@contextlib.contextmanager
def far_endpoint(link, server):
    """One more server of the same folder, at the far end of the link."""
    process = subprocess.Popen(
        link.command(servers.S3S_FS, "--access-key", servers.KEY_ID, "--secret-key", servers.SECRET,
                     "--host", FAR, "--port", str(server.port), server.root),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        servers.wait_for_port(server.port, process, FAR)
        yield f"http://{FAR}:{server.port}"
    finally:
        process.kill()
        process.wait()


class Bench:
    def __init__(self, program, folder, near, far):
        self.program, self.folder, self.near, self.far = program, folder, near, far
        self.run_options = ("--board", BOARD, "--run", "r")

    def isthmus(self, endpoint, *arguments):
        done = subprocess.run([self.program, *map(str, arguments), "--json"], stdout=subprocess.PIPE,
                              text=True, env=servers.environment(endpoint))
        if done.returncode != 0:
            raise BenchError(f"exit status {done.returncode} of: isthmus {arguments}")
        return json.loads(done.stdout) if done.stdout else None

    def publish(self, model):
        return self.isthmus(self.near, "publish", model.folder, *self.run_options, "--baseline",
                            self.folder / "baseline")

    def pull(self, endpoint):
        return self.isthmus(endpoint, "pull", *self.run_options, "--replica", self.folder / "replica")

    def start(self, model):
        self.isthmus(self.near, "board", "init", BOARD)
        self.publish(model)
        self.pull(self.near)

    def round(self, model, link):
        """(bytes of the patch, seconds of the pull, seconds from its first request to the last byte,
        its requests)"""
        model.step()
        self.publish(model)
        link.take_requests()
        pulled = self.pull(self.far)
        if len(pulled["chain"]) != 1 or not pulled["chain"][0].startswith("patch "):
            raise BenchError(f"wanted one patch to be pulled, got {pulled}")
        requests, seconds = link.take_requests()
        return pulled["fetched_bytes"], pulled["seconds"], seconds, requests


def report(model, rounds):
    patch = statistics.median(found[0] for found in rounds)
    ideal = [found[0] / BYTES_PER_S + 2 * ROUND_TRIP_S for found in rounds]
    case = f"patch of {patch / 1e6:.3g} MB over {ROUND_TRIP_S * 1e3:.0f} ms and {BYTES_PER_S * 8 / 1e9:g} Gbit/s"
    median = lambda values: statistics.median(values)
    row(case, "pull / (patch / rate + 2 round trips)",
        median(found[1] / best for found, best in zip(rounds, ideal)), "ratio", MAX_RATIO)
    row(case, "network: first request to last byte / the same",
        median(found[2] / best for found, best in zip(rounds, ideal)), "ratio")
    row(case, "pull", median(found[1] for found in rounds), "s")
    row(case, "requests", median(len(found[3]) for found in rounds), "requests")
    row(case, "checkpoint", model.file.stat().st_size / (1 << 20), "MiB")


def trace(requests, seconds):
    for at, line in requests:
        print(f"far: {at * 1e3:7.1f} ms  {line}", file=sys.stderr)
    print(f"far: {seconds * 1e3:7.1f} ms  last byte", file=sys.stderr)


def run(arguments, folder):
    server = servers.Server("s3s-fs", folder=folder)
    with contextlib.closing(server), FarLink(ROUND_TRIP_S, BYTES_PER_S) as link:
        with far_endpoint(link, server) as far:
            model = Model(folder / "model", arguments.mib, arguments.density)
            bench = Bench(arguments.build / "isthmus", folder, server.endpoint, far)
            bench.start(model)
            rounds = [bench.round(model, link) for _ in range(arguments.runs + 1)][1:]  # one warms up
    print("bench,case,metric,value,unit,target,met")
    report(model, rounds)
    if arguments.trace:
        trace(rounds[-1][3], rounds[-1][2])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--density", type=float, default=0.1)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("far: needs root, to make a network namespace")
    parent = arguments.folder or (SHARED_MEMORY if SHARED_MEMORY.is_dir() else None)
    with tempfile.TemporaryDirectory(prefix="isthmus-far-", dir=parent) as folder:
        run(arguments, pathlib.Path(folder))


if __name__ == "__main__":
    try:
        main()
    except (BenchError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"far: {error}")
