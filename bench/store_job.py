#!/usr/bin/env python3
"""Times publishing a step of a large model to S3 on the loopback (s3s-fs) beside a directory.

store_job.py [--gib N] [--runs N] [--folder DIR] [--build DIR]

Generates two steps of a BF16 model that differ in about 1 % of its elements. Each round publishes the
other of the two steps to a board in a directory and to one in s3s-fs (scripts/stores.sh), in turns and in
either order, so that what else the machine does hits both. Prints CSV: the medians, and the median of the rounds' ratios.
"""

import json
import os
import pathlib
import statistics
import sys

import main_job

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "store"))
import servers  # noqa: E402

COPIES = 6  # two steps; of each board an anchor and a baseline
MIN_RATIO = 0.8  # of the speed over a directory's


def row(case, metric, value, unit, least=None):
    target, met = ("", "") if least is None else (f">= {least}", "yes" if value >= least else "no")
    print(f"store,{case},{metric},{value:.4g},{unit},{target},{met}")


class Site:
    """A board in one store and a publisher for it."""

    def __init__(self, scene, name, board):
        self.scene, self.name, self.board = scene, name, board
        self.baseline = scene.folder / f"baseline-{name}"
        self.published, self.seconds = 0, []
        main_job.call(scene.isthmus, "board", "init", board)
        self.anchor_seconds = self.publish()["seconds"]

    def publish(self):
        step = self.scene.steps[self.published % 2]
        self.published += 1
        return json.loads(main_job.call(self.scene.isthmus, "publish", step, "--board", self.board,
                                        "--run", "bench", "--baseline", self.baseline, "--json"))

    def timed_publish(self):
        result = self.publish()
        low, high = main_job.DENSITY_RANGE
        if result["kind"] != "patch" or not low <= result["density"] <= high:
            raise main_job.BenchError(f"wanted a patch of {low:.2%} to {high:.2%}, got {result}")
        self.seconds.append(result["seconds"])
        return result


def report(sites, result):
    size = result["checkpoint_bytes"]
    print("bench,case,metric,value,unit,target,met")
    for site in sites:
        row(f"publish to {site.name}", "anchor speed", size / site.anchor_seconds / 1e9, "GB/s")
        row(f"publish to {site.name}", "speed", size / statistics.median(site.seconds) / 1e9, "GB/s")
    directory, bucket = sites
    ratio = statistics.median(a / b for a, b in zip(directory.seconds, bucket.seconds))
    row("publish", "speed to s3s-fs / to a directory", ratio, "ratio", MIN_RATIO)


def run(arguments, folder):
    server = servers.Server("s3s-fs", folder=folder)
    try:
        os.environ.update(server.environment())
        scene = main_job.Scene(arguments.build, folder)
        scene.generate(arguments.gib)
        sites = [Site(scene, "directory", folder / "board"), Site(scene, "s3s-fs", f"s3://{servers.BUCKET}")]
        for i in range(arguments.runs + 1):
            results = [site.timed_publish() for site in sites[::-1 if i % 2 else 1]]
            main_job.note(", ".join(f"{site.name} {site.seconds[-1]:.2f} s" for site in sites))
            if i == 0:  # warms up the rest
                for site in sites:
                    site.seconds.clear()
        report(sites, results[0])
    finally:
        server.close()


if __name__ == "__main__":
    main_job.run_steps_bench("store job", __doc__, COPIES, run, runs=7)
