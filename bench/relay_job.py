#!/usr/bin/env python3
"""Measures the relay: hits next to nginx serving the same file, and what many pullers cost the origin.

relay_job.py [--rounds N] [--build DIR]

One object of 1 GiB, in the page cache of TMPDIR (a tmpfs cannot be read without waiting, and would not
be what a relay has). In each round the relay and nginx (one worker,
sendfile; without nginx its rows are left out: package nginx-light) send it once to a client that
drops it, over the loopback, in turn; a ratio is the median of those within a round. Then 32 pullers
ask a relay with an empty cache at once. Prints CSV.
"""

import argparse
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from proxy_island import BenchError, HOST, Watched, call, free_port, wait_for

ROOT = pathlib.Path(__file__).resolve().parent.parent
OBJECT_BYTES = 1 << 30
KEY = "runs/bench/data/1/a/part"
PULLERS = 32
MAX_ORIGIN_RATIO = 1.01
NGINX = """
worker_processes 1;
daemon off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ }}
http {{
  access_log off;
  sendfile on;
  client_body_temp_path {folder}/client_body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{ listen {host}:{port}; root {board}; }}
}}
"""


def download(port):
    """Asks for the object and drops it in the kernel; its bytes."""
    with socket.create_connection((HOST, port)) as client:
        client.sendall(f"GET /{KEY} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        if not head.startswith(b"HTTP/1.1 200 "):
            raise BenchError(f"answered {head[:100]}")
        got = len(head.partition(b"\r\n\r\n")[2])
        room = bytearray(1 << 20)
        while count := client.recv_into(room, 0, socket.MSG_TRUNC):
            got += count
    if got != OBJECT_BYTES:
        raise BenchError(f"{got} bytes came, {OBJECT_BYTES} were asked for")
    return got


def gigabytes_per_second(port):
    begun = time.monotonic()
    return download(port) / (time.monotonic() - begun) / 1e9


class Servers:
    """A board with one large object, a relay and nginx. Ends all of them when it is left."""

    def __init__(self, build, folder):
        self.isthmus, self.folder, self.processes = build / "isthmus", folder, []
        self.board = folder / "board"
        call(self.isthmus, "board", "init", self.board)
        part = self.board / KEY
        part.parent.mkdir(parents=True)
        with open(part, "wb") as file, open("/dev/urandom", "rb") as noise:
            block = noise.read(1 << 20)
            for _ in range(OBJECT_BYTES >> 20):
                file.write(block)
        folder.chmod(0o755)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
            if process.stdout:
                process.stdout.close()

    def start_relay(self, cache):
        process = subprocess.Popen(
            [self.isthmus, "board", "serve", self.board, "--listen", f"{HOST}:0", "--cache",
             self.folder / cache, "--cache-bytes", str(2 * OBJECT_BYTES)], stdout=subprocess.PIPE,
            text=True)
        self.processes.append(process)
        self.relay = Watched(process.pid)
        return int(process.stdout.readline().rpartition(":")[2])

    def start_nginx(self):
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if program is None:
            return None
        port, settings = free_port(), self.folder / "nginx.conf"
        settings.write_text(NGINX.format(user="user root;" if self.folder.owner() == "root" else "",
                                         folder=self.folder, host=HOST, port=port,
                                         board=self.board))
        self.processes.append(subprocess.Popen([program, "-c", settings, "-p", self.folder],
                                               stderr=subprocess.DEVNULL))
        wait_for("nginx", lambda: accepts(port))
        return port


def accepts(port):
    try:
        socket.create_connection((HOST, port), 1).close()
        return True
    except OSError:
        return False


def metrics(port):
    with urllib.request.urlopen(f"http://{HOST}:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name.removeprefix("isthmus_relay_"): float(value) for name, value in pairs}


def row(case, metric, value, unit, at_most=None):
    target, met = "", ""
    if at_most is not None:
        target, met = f"<= {at_most:g}", "yes" if value <= at_most else "no"
    print(f"relay,{case},{metric},{value:.4g},{unit},{target},{met}")


def measure_hits(servers, rounds):
    ports = {"relay": servers.start_relay("cache"), "nginx": servers.start_nginx()}
    if ports["nginx"] is None:
        print("relay: no nginx, so nothing is compared with it (package nginx-light)",
              file=sys.stderr)
        del ports["nginx"]
    download(ports["relay"])
    wait_for("the object in the cache", lambda: metrics(ports["relay"])["fetching"] == 0)
    speeds = {name: [] for name in ports}
    servers.relay.reset_peak()
    for number in range(rounds):
        for name in list(ports)[::-1 if number % 2 else 1]:
            speeds[name].append(gigabytes_per_second(ports[name]))
    case = "hits of 1 GiB on 1 connection"
    for name, found in speeds.items():
        row(case, f"speed: {name}", statistics.median(found), "GB/s")
    if "nginx" in speeds:
        ratios = map(lambda one, other: one / other, speeds["relay"], speeds["nginx"])
        row(case, "speed / nginx", statistics.median(ratios), "ratio")
    row(case, "peak memory: relay", servers.relay.memory("VmHWM") / 1e6, "MB")


def measure_pullers(servers):
    port = servers.start_relay("second-cache")
    failures = []

    def pull():
        try:
            download(port)
        except (BenchError, OSError) as error:
            failures.append(error)

    begun = time.monotonic()
    pullers = [threading.Thread(target=pull) for _ in range(PULLERS)]
    for puller in pullers:
        puller.start()
    for puller in pullers:
        puller.join()
    seconds = time.monotonic() - begun
    if failures:
        raise BenchError(f"{len(failures)} pullers failed, one with: {failures[0]}")
    case = f"{PULLERS} pullers of 1 GiB, empty cache"
    ratio = metrics(port)["origin_bytes_total"] / OBJECT_BYTES
    row(case, "bytes from the origin / object", ratio, "ratio", at_most=MAX_ORIGIN_RATIO)
    row(case, "speed of all together", PULLERS * OBJECT_BYTES / seconds / 1e9, "GB/s")
    row(case, "peak memory: relay", servers.relay.memory("VmHWM") / 1e6, "MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is ended
    with tempfile.TemporaryDirectory(prefix="isthmus-bench-") as folder:
        with Servers(arguments.build, pathlib.Path(folder)) as servers:
            print("bench,case,metric,value,unit,target,met")
            measure_hits(servers, arguments.rounds)
            measure_pullers(servers)


if __name__ == "__main__":
    try:
        main()
    except (BenchError, OSError) as error:
        sys.exit(f"relay: {error}")
