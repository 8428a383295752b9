"""The programs that bench/proxy_job.py measures: an engine, a sidecar and nginx in front of it; and
what bench/gateway_fleet.py needs of that."""

import http.client
import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import time

RUN = "bench"
HOST = "127.0.0.1"
MODEL_BYTES = "2MiB"  # the smallest that isthmus-modelgen makes
READY_SECONDS, POLL_SECONDS = 60, 0.002
OPEN_FILES = 8192  # two sockets a stream, and room
END_SECONDS = 10
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")

# One worker. Small answers as nginx passes them on by default; streams and large answers on a
# second port, piece by piece, without files in between.
NGINX = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {folder}/client_body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests 100000000;
  upstream engine {{
    {servers}
    keepalive 1024;
    keepalive_requests 100000000;
  }}
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  server {{
    listen {host}:{small};
    location / {{ proxy_pass http://engine; }}
  }}
  server {{
    listen {host}:{streams};
    location / {{ proxy_pass http://engine; proxy_buffering off; }}
  }}
}}
"""


class BenchError(Exception):
    pass


def call(*command):
    command = [str(part) for part in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise BenchError(f"exit status {done.returncode} of: {' '.join(command)}")
    return done.stdout


def ask(port, method, path):
    connection = http.client.HTTPConnection(HOST, port, timeout=READY_SECONDS)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def wait_for(what, condition):
    end = time.monotonic() + READY_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise BenchError(f"{what} did not come about in {READY_SECONDS} s")
        time.sleep(POLL_SECONDS)


def accepts(port):
    try:
        return ask(port, "GET", "/v1/models")[0] == 200
    except OSError:
        return False


def free_port():
    with socket.socket() as one:
        one.bind((HOST, 0))
        return one.getsockname()[1]


class Watched:
    """CPU time and memory of a process, from /proc."""

    def __init__(self, pid):
        self.folder = pathlib.Path("/proc") / str(pid)

    def cpu_seconds(self):
        fields = (self.folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def memory(self, name):
        """VmRSS, or VmHWM: its highest value since reset_peak()."""
        for line in (self.folder / "status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        raise BenchError(f"no {name} of process {self.folder.name}")

    def reset_peak(self):
        (self.folder / "clear_refs").write_text("5")


class Programs:
    """Programs that run until the block is left. A subclass starts them in start()."""

    def __init__(self, build, folder, open_files=OPEN_FILES):
        self.isthmus, self.bench = build / "isthmus", build / "isthmus-bench-proxy"
        self.folder, self.processes = folder, []
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < open_files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(open_files, hard), hard))

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            self.end(process)

    def end(self, process):
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()

    def run(self, *command, **options):
        process = subprocess.Popen([str(part) for part in command], text=True, **options)
        self.processes.append(process)
        return process

    def run_nginx(self, engines):
        """One worker in front of these ports: what to watch, and the ports for small answers and for
        streams. None without nginx."""
        program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
        if program is None:
            return None
        small, streams = free_port(), free_port()
        settings = self.folder / "nginx.conf"
        servers = " ".join(f"server {HOST}:{engine};" for engine in engines)
        settings.write_text(NGINX.format(folder=self.folder, host=HOST, servers=servers,
                                         small=small, streams=streams))
        process = self.run(program, "-c", settings, "-p", self.folder, stderr=subprocess.DEVNULL)
        wait_for("nginx", lambda: accepts(small))
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        return Watched(children.split()[0]), small, streams

    def measure(self, mode, port, *options):
        return json.loads(call(self.bench, mode, f"http://{HOST}:{port}", *options))


class Island(Programs):
    """A board with a run, an engine, a sidecar that serves its newest version, and nginx if it is
    installed."""

    def __init__(self, build, folder):
        super().__init__(build, folder)
        self.published = 0
        self.small, self.streams = {}, {}  # ports by name
        call(build / "isthmus-modelgen", folder / "steps", "--bytes", MODEL_BYTES, "--steps", 2)
        call(self.isthmus, "board", "init", folder / "board")

    def start(self):
        self.publish()
        self._start_engine()
        self._start_sidecar()
        self._start_nginx()

    def publish(self):
        """The step that is not the newest version; its number."""
        step = self.folder / "steps" / f"step-{self.published % 2}"
        call(self.isthmus, "publish", step, "--board", self.folder / "board", "--run", RUN,
             "--baseline", self.folder / "baseline", "--json")
        self.published += 1
        return self.published

    def _start_engine(self):
        process = self.run(self.bench, "engine", stdout=subprocess.PIPE)
        self.engine = json.loads(process.stdout.readline())["port"]
        self.small["direct"] = self.streams["direct"] = self.engine

    def _start_sidecar(self):
        process = self.run(
            self.isthmus, "sidecar", "--board", self.folder / "board", "--run", RUN, "--replica",
            self.folder / "replica", "--engine", f"vllm:http://{HOST}:{self.engine}", "--listen",
            f"{HOST}:0", "--poll-ms", 3600000, "--json", stdout=subprocess.PIPE)
        self.sidecar = int(json.loads(process.stdout.readline())["listening"].rpartition(":")[2])
        self.small["sidecar"] = self.streams["sidecar"] = self.sidecar
        self.watched = {"sidecar": Watched(process.pid)}
        wait_for("a ready sidecar", lambda: ask(self.sidecar, "GET", "/health")[0] == 200)

    def _start_nginx(self):
        nginx = self.run_nginx([self.engine])
        if nginx:
            self.watched["nginx"], self.small["nginx"], self.streams["nginx"] = nginx

    def measure_gate(self, *options):
        return json.loads(call(self.bench, "gate", *options))

    def info(self):
        return json.loads(ask(self.sidecar, "GET", "/server_info")[1])

    def switch(self):
        """Publishes a version; what the sidecar says of the switch to it."""
        version = self.publish()
        ask(self.sidecar, "POST", "/wake")
        update = {}

        def arrived():
            nonlocal update
            update = self.info()["last_update"]
            return update["to"] == version

        wait_for(f"a switch to version {version}", arrived)
        if update["kind"] != "switch" or not update["ok"]:
            raise BenchError(f"wanted a switch to version {version}, got {update}")
        return update
