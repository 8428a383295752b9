"""Starts the real vLLM of .venv-engines, and `isthmus sidecar` in front of it, on the loopback.

What the tests of real engines and the demo share. Both programs write to files; a failure to start
says the last lines.
"""

import http.client
import os
import pathlib
import re
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-engines" / "bin" / "python"
MODEL_NAME = "policy"
START_S = 300  # importing vLLM takes 40 s on two idle cores
STOP_S = 60
# Without development mode there are no control routes. No metrics of usage and no look-ups leave
# the machine; the models are tiny, and so may the cache of keys and values be.
ENVIRONMENT = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1",
               "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
# --enable-scale-out: /inference/v1/generate, the route that tells versions token by token.
OPTIONS = ("--dtype", "bfloat16", "--enforce-eager", "--max-model-len", "4096",
           "--enable-scale-out")


class LaunchError(Exception):
    pass


def program():
    """The program `isthmus`: the environment's ISTHMUS_BIN, or what ./run build leaves."""
    return os.environ.get("ISTHMUS_BIN", str(ROOT / "build" / "release" / "isthmus"))


class Process:
    """A program in a session of its own, so that whatever it started ends with it."""

    def __init__(self, command, log, environment=None):
        self.log = pathlib.Path(log)
        with open(self.log, "wb") as output:
            self.process = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, cwd=self.log.parent, start_new_session=True,
                env={**os.environ, **(environment or {})})

    def wait_until(self, condition, what, deadline_s):
        """Polls until condition() is true and returns its value; LaunchError if that cannot be."""
        deadline = time.monotonic() + deadline_s
        while not (value := condition()):
            if self.process.poll() is not None:
                raise LaunchError(f"{what}: ended with {self.process.returncode}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise LaunchError(f"{what}: not within {deadline_s} s\n{self.tail()}")
            time.sleep(0.02)
        return value

    def tail(self, lines=40):
        return "\n".join(self._lines()[-lines:])

    def first_errors(self, count=5):
        """vLLM says each error many times over; the first lines are the cause."""
        errors = [line for line in self._lines() if re.search(r"(Error|Exception): ", line)]
        return "\n".join(errors[:count])

    def _lines(self):
        return self.log.read_text(errors="replace").splitlines()

    def kill(self):
        """As a crash would, and with all that belongs to it."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return self.process.wait(STOP_S)

    def stop(self):
        """Asks it to end, and returns its exit status."""
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            pass
        return self.kill()


class Vllm(Process):
    """An engine that has begun to start; wait_until_up before the first call."""

    def __init__(self, checkpoint, port, log, *options, environment=None):
        self.port = port
        super().__init__((PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", checkpoint,
                          "--served-model-name", MODEL_NAME, "--host", "127.0.0.1", "--port", port,
                          *OPTIONS, *options), log, {**ENVIRONMENT, **(environment or {})})

    def wait_until_up(self):
        self.wait_until(lambda: is_healthy(self.port), "vLLM", START_S)


class Sidecar(Process):
    """`isthmus sidecar`; constructed once it listens.

    engines: KIND:TARGET of each. port: 0 for one of its own choice.
    """

    def __init__(self, board, run, replica, engines, log, *options, port=0):
        named = [part for engine in engines for part in ("--engine", engine)]
        super().__init__((program(), "sidecar", "--board", board, "--run", run, "--replica",
                          replica, *named, "--listen", f"127.0.0.1:{port}", *options), log)
        self.port = int(self.wait_until(self._listening, "isthmus sidecar", START_S)[1])

    def _listening(self):
        return re.search(r"^listening on https?://127\.0\.0\.1:(\d+)$",
                         self.log.read_text(errors="replace"), re.MULTILINE)

    def wait_until_ready(self):
        self.wait_until(lambda: is_healthy(self.port), "isthmus sidecar", START_S)


def free_port():
    """vLLM cannot choose one itself and say which."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_healthy(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=STOP_S)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def isthmus(*arguments):
    """Runs the program to its end; returns what it printed."""
    done = subprocess.run([program(), *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise LaunchError(f"isthmus {arguments}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


class Run:
    """A run on a board of its own in `folder`, and this trainer's end of it."""

    def __init__(self, folder, name="run"):
        self.board, self.name, self._baseline = folder / "board", name, folder / "baseline"
        isthmus("board", "init", self.board)

    def publish(self, checkpoint):
        isthmus("publish", checkpoint, "--board", self.board, "--run", self.name, "--baseline",
                self._baseline)
