"""vLLM with the plug-in, which the package brings, and one that makes it fail; the calls of an update."""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

sys.path[:0] = [str(harness.ROOT / "examples" / "vllm"), str(harness.ROOT / "tests" / "support")]
import changes_files  # noqa: E402
import launch  # noqa: E402
import plugin_faults  # noqa: E402

TRANSFER = ("--weight-transfer-config", json.dumps({"backend": "isthmus"}))
HERE = pathlib.Path(__file__).resolve().parent
ENTRY_POINTS = """[vllm.general_plugins]
isthmus_faults = plugin_faults:register
"""


def register(folder):
    """Writes to a folder what an installed package has, so far as vLLM looks for plug-ins: that of
    faults; returns the environment in which a process finds it."""
    metadata = pathlib.Path(folder) / "isthmus_faults-0.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: isthmus-faults\nVersion: 0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    paths = [str(folder), str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths),
            plugin_faults.FILE: str(pathlib.Path(folder) / "fail-write")}


class Engine(launch.Vllm):
    """A server that has begun to start with the plug-in. in_use: whether as its backend too."""

    def __init__(self, checkpoint, folder, log, *options, in_use=True):
        environment = register(folder)
        self._fail_write = pathlib.Path(environment[plugin_faults.FILE])
        super().__init__(checkpoint, launch.free_port(), log, *(TRANSFER if in_use else ()), *options,
                         environment=environment)
        self.client = harness.Client(self.port)

    def call(self, path, body=None):
        """The answer to a POST that must succeed."""
        status, answer = self.client.post(path, body)
        assert status == 200, (path, status, answer, self.first_errors())
        return answer

    def init(self, checkpoint):
        self.call("/init_weight_transfer_engine", {"init_info": init_info(checkpoint)})

    def reload(self, checkpoint):
        self.call("/collective_rpc", {"method": "reload_weights",
                                      "kwargs": {"weights_path": str(checkpoint)}})

    def update(self, changes, base):
        """start and update; the reply to the update."""
        self.call("/start_weight_update")
        return self.client.post("/update_weights", {"update_info": update_info(changes, base)})

    def prepare(self, changes, base):
        """start, and the part of the update that needs no pause; returns when that has begun."""
        self.call("/start_weight_update")
        self.call("/update_weights", {"update_info": {**update_info(changes, base),
                                                      "prepare": True}})

    def switch(self, changes, base, target, ahead=False):
        """An update as a sidecar does it."""
        if ahead:
            self.prepare(changes, base)
        self.call("/pause?mode=keep")
        if not ahead:
            self.call("/start_weight_update")
        self.call("/update_weights", {"update_info": update_info(changes, base)})
        self.finish(target)
        self.call("/resume")

    def fail_write(self, count):
        """Lets the next update fail at its write after `count` others; None: no more."""
        self._fail_write.unlink(missing_ok=True)
        if count is not None:
            self._fail_write.write_text(str(count))

    def undo(self):
        self.call("/update_weights", {"update_info": {"format": 1, "undo": True}})

    def close_session(self):
        """Ends what a client may have left open, with the old bits; nothing if there is nothing."""
        self.client.post("/update_weights", {"update_info": {"format": 1, "undo": True}})
        self.client.post("/finish_weight_update", {})

    def finish(self, label):
        self.call("/finish_weight_update", {"weight_version": label})

    def checksums(self):
        return self.call("/weight_checker", {"action": "checksum"})["checksums"]


def init_info(checkpoint):
    return {"format": 1, "checkpoint": str(checkpoint), "digest": changes_files.digest(checkpoint)}


def update_info(changes, base):
    return {"format": 1, "changes": str(changes), "base": base}
