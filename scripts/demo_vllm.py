#!/usr/bin/env python3
"""Follows a training run with the real vLLM: requests go on while its weights change under them.

demo_vllm.py [--steps N]

A trainer publishes AdamW-like steps of a small Qwen3 to a board. A sidecar brings them to a vLLM on
this machine's CPU. Around each step four requests are made: one that takes any version, one for
exactly the version served, one that waits for the next, and one for a version that is gone. Prints
what each asked for and got, and the times of each switch. Run by ./run demo-vllm, which installs
what is needed.
"""

import argparse
import collections
import http.client
import json
import pathlib
import signal
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples" / "vllm"))
import launch  # noqa: E402
import make_qwen3  # noqa: E402

RUN = "demo"
LIMIT_S = 300  # of one request or switch
# Tokens of requests: one that is under way before, during and after a switch; one that is still
# under way when the next version is published; the others.
LONG, MIDDLE, SHORT = 2500, 800, 100
REQUEST_COLUMNS = ("request", "asked for", "status", "start", "end", "tokens", "s",
                   "tokens by version")
SWITCH_COLUMNS = ("switch", "bytes", "stage", "drain", "pause", "load", "flush", "verify", "resume",
                  "paused", "closed")
UPDATE_KEYS = ("stage_ms", "drain_ms", "pause_ms", "load_ms", "flush_ms", "verify_ms", "resume_ms",
               "paused_ms", "closed_ms")
Answer = collections.namedtuple("Answer", "status body seconds")


def note(text):
    print(f"demo: {text}", file=sys.stderr, flush=True)


def call(port, method, path, body=None, headers=None):
    start = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        body = json.loads(response.read())
        return Answer(response.status, body, time.monotonic() - start)
    finally:
        connection.close()


class Request(threading.Thread):
    """A generation under way; `row` waits for its end."""

    def __init__(self, port, asked, tokens, headers):
        super().__init__(daemon=True)
        self._port, self._asked, self._headers = port, asked, headers
        self._body = {"token_ids": [7, 8, 9], "sampling_params": {
            "max_tokens": tokens, "temperature": 1.0, "ignore_eos": True}}
        self._answer = None
        self.start()

    def run(self):
        self._answer = call(self._port, "POST", "/inference/v1/generate", self._body, self._headers)

    def row(self, number):
        self.join(LIMIT_S)
        if self._answer is None:
            raise launch.LaunchError(f"request {number} ({self._asked}) got no answer")
        status, body, seconds = self._answer
        if status != 200:
            return (str(number), self._asked, str(status), "", "", "", f"{seconds:.1f}", "")
        choice = body["choices"][0]
        spans = (f"{span['version']}: {span['start']}-{span['end']}"
                 for span in choice["weight_versions"])
        return (str(number), self._asked, str(status), str(body["weight_version_start"]),
                str(body["weight_version_end"]), str(len(choice["token_ids"])), f"{seconds:.1f}",
                ", ".join(spans))


class Demo:
    def __init__(self, folder):
        self.folder = folder
        self.trainer = make_qwen3.Trainer(seed=7, tied=False)
        self.run = launch.Run(folder, RUN)
        self.version = 0
        self.requests, self.switches = [], []
        self.engine = self.sidecar = None

    def start(self):
        self.publish()
        note("starting vLLM; this takes about a minute")
        self.engine = launch.Vllm(self.folder / "step-0", launch.free_port(),
                                  self.folder / "vllm.log")
        self.engine.wait_until_up()
        self.sidecar = launch.Sidecar(self.run.board, RUN, self.folder / "replica",
                                      [f"vllm:http://127.0.0.1:{self.engine.port}"],
                                      self.folder / "sidecar.log", "--poll-ms", 50)
        self.sidecar.wait_until_ready()

    def publish(self):
        if self.version > 0:
            self.trainer.step()
        self.run.publish(self.trainer.save(self.folder / f"step-{self.trainer.step_count}"))
        self.version += 1

    def ask(self, asked, tokens=SHORT, **headers):
        self.requests.append(Request(self.sidecar.port, asked, tokens, {
            "Isthmus-" + name.replace("_", "-"): str(value) for name, value in headers.items()}))

    def info(self):
        return call(self.sidecar.port, "GET", "/server_info").body

    def step(self):
        served, following = self.version, self.version + 1
        note(f"version {following}: requests, publish, switch")
        self.ask("any version", LONG)
        self.ask(f"exactly {served}", MIDDLE, Exact_Version=served)
        self.ask(f"{following} or newer, waiting", Min_Version=following, Wait_Ms=LIMIT_S * 1000)
        self.sidecar.wait_until(self.one_waits, "a request that waits", LIMIT_S)
        self.publish()
        info = self.sidecar.wait_until(self.served_newest, "switch", LIMIT_S)
        self.switches.append(info["last_update"])
        self.ask(f"exactly {served}", Exact_Version=served)

    def one_waits(self):
        return self.info()["waiting"] >= 1

    def served_newest(self):
        info = self.info()
        return info if info["ready"] and info["applied"] == self.version else None

    def stop(self):
        for process in (self.sidecar, self.engine):
            if process:
                process.stop()


def switch_row(update):
    return (f"{update['from']} to {update['to']}", str(update["fetched_bytes"]),
            *(f"{update[key]:.1f}" for key in UPDATE_KEYS))


def print_table(title, columns, rows):
    print(f"\n{title}")
    widths = [max(map(len, column)) for column in zip(columns, *rows)]
    for row in (columns, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=4)
    return parser.parse_args()


def main():
    arguments, begun = parse_arguments(), time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the processes end
    with tempfile.TemporaryDirectory(prefix="isthmus-demo-") as folder:
        demo = Demo(pathlib.Path(folder))
        try:
            demo.start()
            for _ in range(arguments.steps):
                demo.step()
            rows = [request.row(i + 1) for i, request in enumerate(demo.requests)]
        finally:
            demo.stop()
    print_table("Requests, and the versions that answered", REQUEST_COLUMNS, rows)
    print_table("Switches: bytes fetched, then milliseconds", SWITCH_COLUMNS,
                [switch_row(update) for update in demo.switches])
    print("\nstage: fetch, apply and verify while vLLM serves. drain: requests for exactly the old "
          "version\nend. paused: no token is made. closed: new requests wait. "
          f"{time.monotonic() - begun:.0f} s in all.")


if __name__ == "__main__":
    try:
        main()
    except (launch.LaunchError, OSError) as error:
        sys.exit(f"demo: {error}")
