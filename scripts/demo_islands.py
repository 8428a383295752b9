"""Two islands that follow one run: reference engines, a sidecar before each, requests that name versions.

Part of demo.py. The board, the sidecars and the requests are real; the engines are examples/refengine.
"""

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time

PUBLISHED = 4  # versions
LIMIT_S = 120  # of anything that is waited for
COLUMNS = ("island", "request asks for", "waits ms", "status", "version start", "end", "tokens",
           "seconds")


class IslandError(Exception):
    pass


def call(port, method, path, body=None, headers=None, host="127.0.0.1"):
    """(status, body as JSON or None)"""
    connection = http.client.HTTPConnection(host, port, timeout=LIMIT_S)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json",
                                                **(headers or {})})
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None
    finally:
        connection.close()


def wait_until(condition, what):
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.01)
    raise IslandError(f"{what}: not within {LIMIT_S} s")


class Process:
    """A program whose first line on standard output names its port."""

    def __init__(self, command, port_pattern):
        self.process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE,
                                        text=True)
        line = self.process.stdout.readline()
        found = re.search(port_pattern, line)
        if not found:
            raise IslandError(f"{command[0]} said {line!r} where it names its port")
        self.port = int(found[1])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(LIMIT_S)
        self.process.stdout.close()


class Island:
    def __init__(self, name, isthmus, root, folder, checkpoint, policy):
        self.name = name
        self.engine = Process((sys.executable, "-u", root / "examples" / "refengine", checkpoint,
                               "--port", 0), r"^(\d+)$")
        self.sidecar = Process(
            (isthmus, "sidecar", "--board", folder / "board", "--run", "demo", "--replica",
             folder / name, "--engine", f"vllm:http://127.0.0.1:{self.engine.port}", "--listen",
             "127.0.0.1:0", "--policy", policy, "--poll-ms", 200), r":(\d+)$")

    def info(self):
        return call(self.sidecar.port, "GET", "/server_info")[1]

    def wait_for(self, version):
        wait_until(lambda: self.info()["ready"] and self.info()["applied"] == version,
                   f"{self.name} at version {version}")

    def stop(self):
        self.sidecar.stop()
        self.engine.process.kill()
        self.engine.process.wait(LIMIT_S)
        self.engine.process.stdout.close()


class Request(threading.Thread):
    """Asks an island for a completion; `row` is a row of the table."""

    def __init__(self, island, asks, wait_ms=None, tokens=16):
        super().__init__(daemon=True)
        self._island, self._asks, self._wait_ms, self._tokens = island, asks, wait_ms, tokens
        self.row = None
        self.start()

    def run(self):
        body = {"prompt": [1, 2, 3], "max_tokens": self._tokens, "temperature": 0,
                "weight_version": self._asks}
        headers = {} if self._wait_ms is None else {"Isthmus-Wait-Ms": str(self._wait_ms)}
        begun = time.monotonic()
        status, answer = call(self._island.sidecar.port, "POST", "/v1/completions", body, headers)
        asked = ", ".join(f"{key} {value}" for key, value in self._asks.items()) or "any version"
        made = answer.get("usage", {}).get("completion_tokens", "")
        self.row = (self._island.name, asked, str(self._wait_ms or ""), str(status),
                    str(answer.get("weight_version_start", "")),
                    str(answer.get("weight_version_end", "")), str(made),
                    f"{time.monotonic() - begun:.2f}")


def play(isthmus, root, folder, publish):
    """Rows of the table, then lines about the switches. publish(N): the next version of the run."""
    publish(1)
    islands = []
    try:
        for name, policy in (("tokyo", "in_place"), ("dublin", "drain")):
            islands.append(Island(name, isthmus, root, folder, folder / "step-1", policy))
        for island in islands:
            island.wait_for(1)
        rows = []
        for version in range(1, PUBLISHED):
            rows += follow(islands, version, publish)
        yield from rows
        yield from (switch_line(island) for island in islands)
    finally:
        for island in islands:
            island.stop()


def follow(islands, version, publish):
    """While `version` is served the next one is published; the rows of requests around that."""
    requests = []
    for island in islands:
        requests += [Request(island, {}, tokens=800),
                     Request(island, {"exact_version": version}),
                     Request(island, {"min_version": version + 1}, wait_ms=30_000),
                     Request(island, {"min_version": version + 1})]
    publish(version + 1)
    for island in islands:
        island.wait_for(version + 1)
    for island in islands:
        requests.append(Request(island, {"exact_version": version}))
    for request in requests:
        request.join(LIMIT_S)
        if request.row is None:
            raise IslandError("a request has no answer")
    return [request.row for request in requests]


def switch_line(island):
    update = island.info()["last_update"]
    return (f"{island.name}: last switch {update['from']} to {update['to']}: "
            f"{update['fetched_bytes']:,} bytes, staged in {update['stage_ms']:.0f} ms while serving, "
            f"paused {update['paused_ms']:.0f} ms (load {update['load_ms']:.0f}), "
            f"own share {update['own_ms']:.1f} ms")

