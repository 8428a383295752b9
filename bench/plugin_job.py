#!/usr/bin/env python3
"""From pause to resume with the plug-in, with a reload, and with vLLM's own sparse patches, on the
real vLLM: plugin_job.py [--layers N] [--rounds N] [--scratch DIR]. Prints CSV.

A Qwen3 of random BF16 weights: with 22 layers 0.5 billion parameters. Medians of rounds that take
turns. What a switch takes in memory is the most that the worker's process had, above what it had
before, the mapped file included.
"""

import argparse
import functools
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "engines" / "real"), str(ROOT / "examples" / "vllm"),
                str(ROOT / "examples" / "refengine")]
import make_model  # noqa: E402
import make_qwen3  # noqa: E402
import numpy as np  # noqa: E402
import plugin_engine  # noqa: E402
from plugin_engine import changes_files  # noqa: E402

DENSITIES = (0.01, 0.001)
GOALS = {0.01: 0.1, 0.001: 0.05}
OWN_GOAL, BYTES_GOAL = 0.25, 24
PREPARE_S = 2  # what a sidecar leaves between the file and the pause: it waits for requests
CONFIG = {**make_qwen3.CONFIG, "hidden_size": 1024, "intermediate_size": 3072,
          "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
          "vocab_size": 151936, "tie_word_embeddings": True}
# stock: another engine, without the plug-in as its backend, so that it packs what it can
FORMS = ("prepared", "plug-in", "own patches", "reload")


def make_checkpoint(directory, layers):
    config = {**CONFIG, "num_hidden_layers": layers}
    make_model.make(directory, 1, config)
    make_qwen3.write_tokenizer(directory, 512)
    return directory


def make_changed(old, directory, density, random):
    """The checkpoint with the lowest bit of some values flipped: what small steps do."""
    directory.mkdir()
    for path in old.iterdir():
        (directory / path.name).write_bytes(path.read_bytes())
    for path in directory.glob("*.safetensors"):
        header = int(np.fromfile(path, "<u8", 1)[0]) + 8
        words = np.memmap(path, "<u2", "r+", offset=header)
        for begin in range(0, len(words), 1 << 24):
            part = words[begin:begin + (1 << 24)]
            part ^= random.random(len(part), np.float32) < density
        words.flush()
    return directory


class Worker:
    """The engine's process that holds the weights: the one with most memory among its own."""

    def __init__(self, leader):
        session = os.getsid(leader)
        self._proc = max((path for path in pathlib.Path("/proc").glob("[0-9]*")
                          if session_of(path) == session), key=lambda path: memory(path)["VmRSS"])

    def begin(self):
        (self._proc / "clear_refs").write_text("5")  # the peak is counted from here
        self._before = memory(self._proc)["VmRSS"]

    def most_bytes(self):
        return memory(self._proc)["VmHWM"] - self._before


def session_of(proc):
    try:
        return os.getsid(int(proc.name))
    except ProcessLookupError:
        return None


def memory(proc):
    """{field: bytes}"""
    try:
        lines = (proc / "status").read_text().splitlines()
    except OSError:
        lines = []
    values = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines
              if line.startswith("Vm")}
    return {"VmRSS": 0, "VmHWM": 0, **values}


class Job:
    def __init__(self, options, scratch):
        self.rounds = options.rounds
        self.checkpoint = make_checkpoint(scratch / "step-0", options.layers)
        random = np.random.Generator(np.random.PCG64(2))
        self.changed = {density: make_changed(self.checkpoint, scratch / f"step-{density}", density,
                                              random) for density in DENSITIES}
        self.scratch = scratch
        os.environ["PYTHONPATH"] = str(ROOT / "bench")
        self.engine = plugin_engine.Engine(self.checkpoint, scratch / "package",
                                           scratch / "stock.log", in_use=False)

    def stock_reload(self):
        """Seconds of a reload where vLLM is as it comes: it packs what it can."""
        self.engine.wait_until_up()
        self.time_requests("packed; as vLLM comes")
        paths = [self.checkpoint, *self.changed.values()]
        seconds = [self.switch("reload", None, path, None) for path in paths * self.rounds]
        self.engine.kill()
        return statistics.median(seconds)

    def time_requests(self, case):
        """What plain weights cost: a long prompt, one stream of tokens, and four together."""
        body = {"prompt": list(range(1, 513)), "max_tokens": 1}
        row(case, "prompt of 512 tokens", self.median(lambda: self.complete(body)), "s")
        body = {"prompt": [1, 2, 3], "max_tokens": 32, "ignore_eos": True}
        for count in (1, 4):
            seconds = self.median(lambda: self.complete({**body, "n": count, "temperature": 1}))
            row(case, f"{count} streams of 32 tokens", seconds, "s")

    def complete(self, body):
        self.engine.call("/reset_prefix_cache")
        self.engine.call("/v1/completions", body)

    def median(self, function):
        def timed():
            begin = time.monotonic()
            function()
            return time.monotonic() - begin
        return statistics.median(timed() for _ in range(2 * self.rounds + 1))

    def run(self):
        stock = self.stock_reload()
        row("all", "stock reload: pause to resume", stock, "s")
        self.stock = stock
        self.engine = plugin_engine.Engine(
            self.checkpoint, self.scratch / "package", self.scratch / "vllm.log",
            "--worker-extension-cls", "patch_worker.PatchWorker")
        self.engine.wait_until_up()
        self.time_requests("plain; with the plug-in")
        self.worker = Worker(self.engine.process.pid)
        begin = time.monotonic()
        self.engine.init(self.checkpoint)
        row("all", "init", time.monotonic() - begin, "s")
        for density, changed in self.changed.items():
            self.measure(density, changed)

    def measure(self, density, changed):
        ways = [(self.checkpoint, changed), (changed, self.checkpoint)]
        files = [changes_files.make(self.scratch / f"{density}-{i}.safetensors", *way)
                 for i, way in enumerate(ways)]
        count = sum(len(entry) for name, entry in changes_files.between(
            *map(changes_files.read_checkpoint, ways[0]))[0].items() if name.startswith("b:"))
        seconds, most = {form: [] for form in FORMS}, {form: [] for form in FORMS}
        for _ in range(self.rounds):
            for form in FORMS:
                for (old, new), file in zip(ways, files):
                    self.engine.init(old)
                    self.worker.begin()
                    seconds[form].append(self.switch(form, old, new, file))
                    most[form].append(self.worker.most_bytes())
        self.report(f"{density:.1%} of {sum_units(self.checkpoint) / 1e9:.2g} billion", density, count,
                    {form: statistics.median(values) for form, values in seconds.items()}, most)

    def switch(self, form, old, new, file):
        """Seconds from before the pause until after the resume."""
        engine, base, label = self.engine, old and self.digest(old), self.digest(new)
        if form == "prepared":
            engine.prepare(file, base)
            time.sleep(PREPARE_S)
        begin = time.monotonic()
        engine.call("/pause?mode=keep")
        if form in ("prepared", "plug-in"):
            if form == "plug-in":
                engine.call("/start_weight_update")
            engine.call("/update_weights", {"update_info": plugin_engine.update_info(file, base)})
            engine.finish(label)
        else:
            if form == "reload":
                engine.reload(new)
            else:
                engine.call("/collective_rpc", {"method": "apply_own_patches", "args": [str(file)]})
            engine.call("/update_weight_version", {"new_version": label})
        engine.call("/resume")
        return time.monotonic() - begin

    @functools.cache
    def digest(self, checkpoint):
        return changes_files.digest(checkpoint)

    def report(self, case, density, count, seconds, most):
        row(case, "changed elements", count, "elements")
        for form in FORMS:
            row(case, f"{form}: pause to resume", seconds[form], "s")
            row(case, f"{form}: most extra memory", max(most[form]) / count, "bytes per change",
                *(goal(max(most[form]) / count, BYTES_GOAL) if form in FORMS[:2] else ()))
        for form in FORMS[:2]:
            for other, value, limit in (("reload", seconds["reload"], GOALS[density]),
                                        ("stock reload", self.stock, GOALS[density]),
                                        ("own patches", seconds["own patches"], OWN_GOAL)):
                ratio = seconds[form] / value
                row(case, f"{form} / {other}", ratio, "ratio", *goal(ratio, limit))


def sum_units(directory):
    return sum(len(units) for _, _, units in changes_files.read_checkpoint(directory).values())


def goal(value, limit):
    return f"<= {limit}", "yes" if value <= limit else "no"


def row(case, metric, value, unit, target="", met=""):
    print(f"plugin,{case},{metric},{value:.4g},{unit},{target},{met}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=22)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="isthmus-plugin-job-", dir=options.scratch) as folder:
        job = Job(options, pathlib.Path(folder))
        print("bench,case,metric,value,unit,target,met")
        try:
            job.run()
        finally:
            job.engine.kill()


if __name__ == "__main__":
    main()
