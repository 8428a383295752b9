"""The programs that bench/gateway_job.py measures: islands, and in front of them a gateway, nginx and
two routers."""

import json
import os
import pathlib
import subprocess
import sys

from proxy_island import HOST, RUN, BenchError, Programs, Watched, accepts, ask, free_port, wait_for

ROUTERS = ("sglang-router==0.3.2", "vllm-router==0.1.17")
# As they start by default, and doing as little as they can.
SETTINGS = {"as it comes": (), "round robin": ("--policy", "round_robin", "--log-level")}
QUIET = {"sglang-router": "warn", "vllm-router": "warning"}  # with the last option
VENV = pathlib.Path(__file__).resolve().parent.parent / ".venv-routers"


def note(text):
    print(f"gateway: {text}", file=sys.stderr, flush=True)


def install_routers():
    """Both into a virtual environment of their own; those that could be installed."""
    python = VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    found = []
    for requirement in ROUTERS:
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", requirement],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode == 0:
            found.append(requirement.partition("==")[0])
        else:
            note(f"no {requirement}: {done.stderr.strip()[-500:]}")
    return found


class Islands(Programs):
    """Islands that stamp what they answer, as one process, or `apart`; a gateway in front of them."""

    def __init__(self, build, folder, count, apart=False, gateway_options=()):
        super().__init__(build, folder, 1 << 20)
        self.count, self.apart, self.gateway_options = count, apart, gateway_options
        self.islands = {}  # processes by port, if apart
        self.ways, self.watched = {}, {}  # ports and processes by name

    def start(self):
        if self.apart:
            for _ in range(self.count):
                self.start_island()
            self.ports = list(self.islands)
        else:
            self.ports = self._start_islands(self.count)[1]
        self.ways["direct"] = self.ports[0]
        self.start_gateway()

    def _start_islands(self, count, port=0):
        process = self.run(self.bench, "engine", "--run", RUN, "--islands", count, "--port", port,
                           stdout=subprocess.PIPE)
        return process, json.loads(process.stdout.readline())["ports"]

    def start_island(self, port=0):
        process, ports = self._start_islands(1, port)
        self.islands[ports[0]] = process

    def kill_island(self, port):
        process = self.islands.pop(port)
        process.kill()
        self.processes.remove(process)
        self.end(process)

    def start_gateway(self):
        listed = [part for i, port in enumerate(self.ports)
                  for part in ("--island", f"island-{i}=http://{HOST}:{port}")]
        process = self.run(self.isthmus, "gateway", "--listen", f"{HOST}:0", "--slow-start-s", 0,
                           "--json", *listed, *self.gateway_options, stdout=subprocess.PIPE)
        self.gateway = int(json.loads(process.stdout.readline())["listening"].rpartition(":")[2])
        self.ways["gateway"], self.watched["gateway"] = self.gateway, Watched(process.pid)
        wait_for("a fleet that serves", lambda: self.serving() == self.count)

    def fleet(self):
        return json.loads(ask(self.gateway, "GET", "/v1/fleet")[1])

    def serving(self):
        return sum(one["state"] == "ready" for one in self.fleet()["islands"])

    def count_of(self, metric):
        for line in ask(self.gateway, "GET", "/metrics")[1].decode().splitlines():
            if line.startswith(f"{metric} "):
                return float(line.split()[1])
        raise BenchError(f"the gateway has no {metric}")

    def start_nginx(self):
        nginx = self.run_nginx(self.ports)
        if nginx:
            self.watched["nginx"], self.ways["nginx"], _ = nginx
        else:
            note("no nginx, so nothing is compared with it (package nginx-light)")

    def start_routers(self, names):
        for name in names:
            for setting in SETTINGS:
                self.start_router(name, setting)

    def start_router(self, name, setting):
        """Says so and goes on without it if it does not come up."""
        port, metrics = free_port(), free_port()
        workers = [f"http://{HOST}:{island}" for island in self.ports]
        options = [*SETTINGS[setting], *([QUIET[name]] if SETTINGS[setting] else ())]
        way, log = f"{name} {setting}", self.folder / f"{name}-{len(self.ways)}.log"
        with open(log, "w", encoding="utf-8") as output:
            process = self.run(
                VENV / "bin" / "python", "-m", f"{name.replace('-', '_')}.launch_router", "--host",
                HOST, "--port", port, "--prometheus-port", metrics, *options, "--worker-urls", *workers,
                stdout=output, stderr=output, env={**os.environ, "NO_PROXY": "*"})
        try:
            wait_for(way, lambda: process.poll() is not None or accepts(port))
        except BenchError as error:
            note(f"{error}: {log.read_text(encoding='utf-8')[-1000:]}")
            return
        if process.poll() is not None:
            note(f"{way} ended: {log.read_text(encoding='utf-8')[-1000:]}")
            return
        self.ways[way], self.watched[way] = port, Watched(process.pid)
