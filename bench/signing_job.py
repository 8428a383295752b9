#!/usr/bin/env python3
"""What signatures and digests cost a publish.

signing_job.py [--gib N] [--runs N] [--folder DIR] [--build DIR]

Two boards in a directory get the same steps of a BF16 model that differ in about 1 % of its elements: one
board's publisher signs (--sign-key), the other's does not. Each round publishes a step to both, by turns in
either order; the overhead is the median of the rounds' ratios, less one. Then `perf` samples as many more
unsigned publishes, each 4,000 times a second of CPU time: the share of samples in libxxhash (the digests of tensors,
old, new and as applied to the baseline) and in libcrypto (the SHA-256 of parts, headers and files; there is no TLS
here). Prints CSV; without perf (package linux-perf) the shares are left out.
"""

import json
import pathlib
import shutil
import statistics

import main_job

COPIES = 6  # two steps; of each board an anchor and a baseline
MAX_PERCENT = 5
SAMPLES_PER_S = 4000
LIBRARIES = {"libxxhash": "XXH3 of tensors", "libcrypto": "SHA-256 of parts and files"}


def row(metric, value, unit, most=None):
    target, met = ("", "") if most is None else (f"<= {most}", "yes" if value <= most else "no")
    print(f"signing,publish,{metric},{value:.4g},{unit},{target},{met}")


class Site:
    """A board and its publisher, which signs if there is a key."""

    def __init__(self, scene, name, key=None):
        self.scene, self.name = scene, name
        self.board, self.published, self.seconds = scene.folder / f"board-{name}", 0, []
        self.options = ["--sign-key", key] if key else []
        main_job.call(scene.isthmus, "board", "init", self.board)
        self.publish()

    def publish(self, *before):
        """What the program says of it; `before` is put before the command."""
        step = self.scene.steps[self.published % 2]
        self.published += 1
        return json.loads(main_job.call(*before, self.scene.isthmus, "publish", step, "--board", self.board,
                                        "--run", "bench", "--baseline",
                                        self.scene.folder / f"baseline-{self.name}", "--json", *self.options))

    def timed_publish(self):
        result = self.publish()
        low, high = main_job.DENSITY_RANGE
        if result["kind"] != "patch" or not low <= result["density"] <= high:
            raise main_job.BenchError(f"wanted a patch of {low:.2%} to {high:.2%}, got {result}")
        self.seconds.append(result["seconds"])


def library_shares(perf, site, file):
    """Percent of the samples of one publish, by library."""
    site.publish(perf, "record", "-q", "-e", "cpu-clock", "-F", SAMPLES_PER_S, "-o", file)
    shares = dict.fromkeys(LIBRARIES, 0.0)
    report = main_job.call(perf, "report", "-i", file, "--stdio", "-q", "-t", ",", "-F", "overhead,dso")
    for line in report.splitlines():
        percent, _, library = line.strip().partition(",")
        for name in LIBRARIES:
            if library.strip().startswith(name):
                shares[name] += float(percent.rstrip("% "))
    return shares


def report_shares(site, runs):
    perf = shutil.which("perf")
    if perf is None:
        return main_job.note("no perf, so no shares of digests (package linux-perf)")
    found = [library_shares(perf, site, site.scene.folder / "perf.data") for _ in range(runs)]
    medians = {name: statistics.median(shares[name] for shares in found) for name in LIBRARIES}
    for name, what in LIBRARIES.items():
        row(f"share of {what}", medians[name], "% of CPU time")
    row("share of all digests", sum(medians.values()), "% of CPU time", MAX_PERCENT)


def run(arguments, folder):
    scene = main_job.Scene(arguments.build, folder)
    scene.generate(arguments.gib)
    key = folder / "trainer.key"
    main_job.call(scene.isthmus, "key", "new", key)
    signed, plain = sites = [Site(scene, "signed", key), Site(scene, "plain")]
    for i in range(arguments.runs + 1):
        for site in sites[::-1 if i % 2 else 1]:
            site.timed_publish()
        main_job.note(", ".join(f"{site.name} {site.seconds[-1]:.3f} s" for site in sites))
        if i == 0:  # warms up the rest
            for site in sites:
                site.seconds.clear()
    print("bench,case,metric,value,unit,target,met")
    ratio = statistics.median(a / b for a, b in zip(signed.seconds, plain.seconds))
    row("overhead of signing", max(0.0, (ratio - 1) * 100), "% of the time", MAX_PERCENT)
    row("unsigned", statistics.median(plain.seconds), "s")
    report_shares(plain, arguments.runs)


if __name__ == "__main__":
    main_job.run_steps_bench("signing job", __doc__, COPIES, run, runs=7)
