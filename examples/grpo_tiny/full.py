"""What there is without Isthmus, to compare with: each engine loads each step's whole checkpoint.

The routes are those of vLLM in its development mode, which the reference engine has too.
"""

import http.client
import json
import time

import fleet
import policy

LIMIT_S = 600


class FullCheckpoints:
    """The trainer writes a checkpoint; then it pauses, reloads and resumes engine after engine."""

    run = None

    def __init__(self, engines):
        self._engines, self._version, self._paused_ms = engines, 1, 0
        self.urls = [f"http://127.0.0.1:{engine.port}" for engine in engines.engines]

    @staticmethod
    def constraints(version, staleness):
        if staleness:
            raise SystemExit("--mode full: no engine says its version, so --staleness is 0")
        return {}

    def publish(self, model, step):
        """(the version of the masters' served view, what is worth a look)"""
        self._version += 1
        directory = self._engines.folder / f"version-{self._version % 2}"  # the last two are kept
        policy.save(model, directory)
        self._paused_ms = max(_load(engine.port, directory, self._version)
                              for engine in self._engines.engines)
        return self._version, {"bytes": (directory / "model.safetensors").stat().st_size}

    def paused_ms(self, _):
        return self._paused_ms

    def differing(self, model, _):
        """For each engine the tensors that differ in what it was told to load last."""
        view = dict(policy.served_view(model))
        directory = self._engines.folder / f"version-{self._version % 2}"
        return [fleet.differing(directory, view)] * len(self.urls)

    def close(self):
        """Nothing is left."""


def _load(port, directory, version):
    """For how long the engine was paused, in ms."""
    began = time.monotonic()
    _call(port, "/pause?mode=keep&clear_cache=true")
    _call(port, "/collective_rpc", {"method": "reload_weights",
                                    "kwargs": {"weights_path": str(directory)}})
    _call(port, "/reset_prefix_cache?reset_running_requests=true")
    _call(port, "/update_weight_version", {"new_version": str(version)})
    _call(port, "/resume")
    return 1000 * (time.monotonic() - began)


def _call(port, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("POST", path, None if body is None else json.dumps(body),
                           {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status}: {text[:500]!r}")
    finally:
        connection.close()
