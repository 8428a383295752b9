"""A board, islands of real engines that follow it, and a gateway, all on the loopback."""

import contextlib
import pathlib
import re
import sys

import isthmus
import safetensors.torch
import torch

import policy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "vllm"))
import launch  # noqa: E402

RUN = "grpo-tiny"
START_S = 60


class Listening(launch.Process):
    """A program of which a line says on which port it listens; constructed once it does."""

    def __init__(self, command, log, pattern):
        super().__init__(command, log)
        found = self.wait_until(lambda: re.search(
            pattern, self.log.read_text(errors="replace"), re.MULTILINE), str(command[0]), START_S)
        self.port = int(found[1])


class Engines:
    """Engines that serve a checkpoint. `with …`: ended at its end.

    kind: "vllm", or "refengine", which needs numpy alone.
    """

    def __init__(self, folder, checkpoint, kind, count):
        self.folder, self.checkpoint = pathlib.Path(folder), pathlib.Path(checkpoint)
        self._processes = []
        with contextlib.ExitStack() as stack:
            stack.callback(self.close)
            self.engines = [self._engine(kind, number) for number in range(count)]
            for engine in self.engines:
                if kind == "vllm":
                    engine.wait_until_up()
            stack.pop_all()

    def _engine(self, kind, number):
        log = self.folder / f"engine-{number}.log"
        if kind == "vllm":
            return self.keep(launch.Vllm(self.checkpoint, launch.free_port(), log))
        return self.keep(Listening(
            (sys.executable, "-u", ROOT / "examples" / "refengine", self.checkpoint, "--port", 0,
             "--served-model-name", launch.MODEL_NAME), log, r"^(\d+)$"))

    def keep(self, process):
        self._processes.append(process)
        return process

    def close(self):
        for process in reversed(self._processes):
            process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Patches:
    """Islands that follow a board. The checkpoint that training starts from is version 1."""

    run = RUN

    def __init__(self, engines, poll_ms=100):
        folder, self._engines = engines.folder, engines
        self.board = isthmus.Board(str(folder / "board"), create=True)
        self.publisher = isthmus.Publisher(
            self.board, RUN, checkpoint=engines.checkpoint, baseline=folder / "baseline",
            project=lambda _, master: master.detach().to(torch.bfloat16))
        self.publisher.publish_checkpoint(engines.checkpoint, step=0)
        self.replicas = [folder / f"replica-{number}" for number in range(len(engines.engines))]
        sidecars = [engines.keep(launch.Sidecar(
            folder / "board", RUN, replica, [f"vllm:http://127.0.0.1:{engine.port}"],
            folder / f"sidecar-{number}.log", "--poll-ms", poll_ms))
            for number, (engine, replica) in enumerate(zip(engines.engines, self.replicas))]
        listed = [part for number, sidecar in enumerate(sidecars)
                  for part in ("--island", f"island-{number}=http://127.0.0.1:{sidecar.port}")]
        gateway = engines.keep(Listening(
            (launch.program(), "gateway", "--listen", "127.0.0.1:0", "--poll-ms", poll_ms, *listed),
            folder / "gateway.log", r"^listening on http://127\.0\.0\.1:(\d+)$"))
        self.urls = [f"http://127.0.0.1:{gateway.port}"]

    @staticmethod
    def constraints(version, staleness):
        return {"min_version" if staleness else "exact_version": version}

    def publish(self, model, step):
        """(the version of the masters' served view, what is worth a look)"""
        version = self.publisher.publish(model.named_parameters(), step=step)
        return version.number, {"changed": version.changed / version.elements,
                                "bytes": version.payload_bytes}

    @staticmethod
    def paused_ms(sampler):
        """Of the islands' last switches the longest time in which an engine made no token."""
        return max((update["paused_ms"] for update in sampler.updates()), default=0)

    def differing(self, model, sampler):
        """For each island the tensors that are not the model's served view, once all serve it."""
        sampler.wait_ready(self.board.head(RUN).number)
        view = dict(policy.served_view(model))
        return [differing(replica, view) for replica in self.replicas]

    def close(self):
        self.publisher.close()


def differing(replica, view):
    held = {}
    for shard in pathlib.Path(replica).glob("*.safetensors"):
        held |= safetensors.torch.load_file(shard)
    names = held.keys() | view.keys()
    return sorted(name for name in names if name not in held or name not in view or not torch.equal(
        held[name].view(torch.int16), view[name].view(torch.int16)))
