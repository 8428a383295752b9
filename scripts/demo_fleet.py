"""A fleet behind a gateway: three islands in two regions, one killed and one added while requests flow.

Part of demo.py. Region "near" reads the board's directory; region "far" lies behind a link of 40 ms and
200 Mbit/s (a network namespace, bench/far_link.py) where this machine allows it, else on the loopback
too, and reads the board through a relay. The engines are examples/refengine, all else is real.
"""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import sys
import threading
import time

from demo_islands import LIMIT_S, IslandError, Process, call, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import far_link  # noqa: E402

ROUND_TRIP_S, BYTES_PER_S = 0.04, 25_000_000
CLIENTS = 6
VERSIONS = 4
REQUESTS_BETWEEN = 40  # that are answered between two events of the play
COLUMNS = ("island", "region", "requests", "versions", "lag mean", "failed", "tokens")


class Loopback:
    """In place of the link where there is none."""

    near = far = "127.0.0.1"

    def command(self, *command):
        return command


class Shaped:
    near, far = far_link.NEAR, far_link.FAR

    def __init__(self, link):
        self.command = link.command


@contextlib.contextmanager
def region_link():
    """(link, what it is). Namespaces need root, a TUN device and `ip`."""
    allowed = os.geteuid() == 0 and os.path.exists("/dev/net/tun") and shutil.which("ip")
    if allowed:
        with contextlib.ExitStack() as stack:
            try:
                link = stack.enter_context(far_link.FarLink(ROUND_TRIP_S, BYTES_PER_S))
            except (OSError, far_link.subprocess.CalledProcessError):
                link = None
            if link is not None:
                yield Shaped(link), "behind 40 ms and 200 Mbit/s"
                return
    yield Loopback(), "on the loopback, for this machine allows no shaped link"


class Island:
    """An engine and its sidecar, which says to the gateway that it is there."""

    def __init__(self, fleet, name, region):
        self.name, self.region = name, region
        command = fleet.link.command if region == "far" else (lambda *parts: parts)
        host = fleet.link.far if region == "far" else "127.0.0.1"
        board = f"http://{fleet.link.near}:{fleet.relay.port}" if region == "far" else fleet.board
        self.engine = Process(command(sys.executable, "-u", str(fleet.root / "examples" / "refengine"),
                                      str(fleet.first), "--port", "0"), r"^(\d+)$")
        self.sidecar = Process(
            command(str(fleet.isthmus), "sidecar", "--board", str(board), "--run", "demo", "--replica",
                    str(fleet.folder / name), "--engine", f"vllm:http://127.0.0.1:{self.engine.port}",
                    "--listen", f"{host}:0", "--poll-ms", "200", "--gateway",
                    fleet.url, "--island-id", name), r":(\d+)$")

    def kill(self):
        """As when a spot machine is taken away."""
        for process in (self.sidecar, self.engine):
            process.process.kill()
            process.process.wait(LIMIT_S)
            process.process.stdout.close()


class Fleet:
    """The board, its relay, the gateway, and the islands that are there."""

    def __init__(self, isthmus, root, folder, link, publish):
        self.isthmus, self.root, self.folder, self.link = isthmus, root, folder, link
        self.board, self.publish_step = folder / "board", publish
        self.islands, self.newest = {}, 0
        self.publish()
        self.first = folder / "step-1"
        listen = f"{link.near}:0"
        self.relay = Process((isthmus, "board", "serve", self.board, "--listen", listen), r":(\d+)$")
        self.gateway = Process((isthmus, "gateway", "--listen", listen, "--slow-start-s", "1"),
                               r":(\d+)$")
        self.url = f"http://{link.near}:{self.gateway.port}"

    def publish(self):
        self.newest += 1
        self.publish_step(self.newest)

    def add(self, name, region):
        self.islands[name] = Island(self, name, region)

    def kill(self, name):
        self.islands.pop(name).kill()

    def wait_for_newest(self):
        """As a trainer does that goes on when all of the fleet serves its version."""
        status, answer = self.ask(f"/v1/runs/demo/ready?version={self.newest}&fraction=1"
                                  f"&timeout_ms={LIMIT_S * 1000}")
        if status != 200 or answer["serving"] < len(self.islands):
            raise IslandError(f"the fleet is not at version {self.newest}: {answer}")

    def facts(self):
        return self.ask("/v1/fleet")[1]

    def ask(self, target):
        return call(self.gateway.port, "GET", target, host=self.link.near)

    def wait_for_islands(self):
        wait_until(lambda: sum(one["state"] == "ready" for one in self.facts()["islands"])
                   == len(self.islands), "all islands are ready")

    def stop(self):
        for name in list(self.islands):
            self.kill(name)
        self.gateway.stop()
        self.relay.stop()


class Clients:
    """Threads that ask the gateway, each again and again; sessions keep their islands."""

    def __init__(self, host, port):
        self.host, self.port = host, port
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.answers, self.failures = [], []
        self.threads = [threading.Thread(target=self.ask_on, args=(number,), daemon=True)
                        for number in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def ask_on(self, number):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=LIMIT_S)
        body = json.dumps({"prompt": [1, 2, number], "max_tokens": 24, "temperature": 0})
        headers = {"Content-Type": "application/json", "Isthmus-Max-Lag": "2", "Isthmus-Wait-Ms": "60000"}
        if number % 2:
            headers["Isthmus-Session"] = f"agent-{number}"
        while not self.ended.is_set():
            try:
                connection.request("POST", "/v1/completions", body, headers)
                response = connection.getresponse()
                answer = json.loads(response.read())
                self.note(response, answer)
            except (OSError, http.client.HTTPException, ValueError) as error:
                with self.lock:
                    self.failures.append(repr(error))
                connection.close()
        connection.close()

    def note(self, response, answer):
        with self.lock:
            if response.status == 200:
                self.answers.append((response.headers["Isthmus-Island"],
                                     int(response.headers["Isthmus-Version-Start"]),
                                     int(response.headers["Isthmus-Lag-End"]),
                                     answer["usage"]["completion_tokens"]))
            else:
                self.failures.append(f"{response.status} {answer}")

    def wait_for_more(self, count=REQUESTS_BETWEEN):
        enough = len(self.answers) + count
        wait_until(lambda: len(self.answers) >= enough, f"{enough} answers")

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join(LIMIT_S)


def play(isthmus, root, folder, publish, note):
    """(rows of the table, closing lines). publish(N): the next version of the run."""
    with region_link() as (link, what):
        fleet = Fleet(isthmus, root, folder, link, publish)
        try:
            note(f"fleet: {fleet.url}/ shows it; region far is {what}")
            return act(fleet, note)
        finally:
            fleet.stop()


def act(fleet, note):
    regions = {"near-1": "near", "near-2": "near", "far-1": "far", "near-3": "near"}
    for name in ("near-1", "near-2", "far-1"):
        fleet.add(name, regions[name])
    fleet.wait_for_islands()
    begun, clients = time.monotonic(), Clients(fleet.link.near, fleet.gateway.port)
    clients.wait_for_more()
    for _ in range(VERSIONS // 2):
        fleet.publish()
        fleet.wait_for_newest()
        clients.wait_for_more()
    note("fleet: near-2 is killed, near-3 is added")
    fleet.kill("near-2")
    clients.wait_for_more()
    fleet.add("near-3", regions["near-3"])
    fleet.wait_for_islands()
    for _ in range(VERSIONS - VERSIONS // 2):
        fleet.publish()
        fleet.wait_for_newest()
        clients.wait_for_more()
    clients.end()
    return table(clients, regions), closing(fleet, clients, time.monotonic() - begun)


def table(clients, regions):
    rows = []
    for name, region in regions.items():
        own = [answer for answer in clients.answers if answer[0] == name]
        versions = sorted({version for _, version, _, _ in own})
        span = f"{versions[0]} to {versions[-1]}" if versions else ""
        mean = f"{sum(lag for _, _, lag, _ in own) / len(own):.2f}" if own else ""
        rows.append((name, region, str(len(own)), span, mean, "", str(sum(each[3] for each in own))))
    return [*rows, ("all", "", str(len(clients.answers)), "", "", str(len(clients.failures)),
                    str(sum(each[3] for each in clients.answers)))]


def closing(fleet, clients, seconds):
    lines = [f"{len(clients.answers)} requests in {seconds:.1f} s, {len(clients.failures)} failed, while "
             f"{VERSIONS} versions were switched, one island was killed and one added"]
    for failure in clients.failures[:5]:
        lines.append(f"failed: {failure}")
    return lines, len(clients.failures)
