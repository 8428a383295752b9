"""Publishing from many processes that hold shards (FSDP2 on the CPU, gloo): the versions are those of the whole model,
and nobody gathers it."""

import json
import pathlib
import sys
import tempfile
import traceback
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

import isthmus  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from package import read_tensors  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: E402

RANKS = 4
DEADLINE_S = 120  # for what should not fail on a busy machine
STEPS = 3


def make_model():
    torch.manual_seed(7)
    return torch.nn.Sequential(*(torch.nn.Linear(768, 770) for _ in range(2)), torch.nn.Linear(770, 3)).to(torch.bfloat16)


def bits(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def begin(folder):
    """The first version, from one process."""
    with isthmus.Publisher(isthmus.Board(folder / "board", create=True), "run", files=folder / "files",
                           baseline=folder / "whole") as publisher:
        publisher.publish(make_model().named_parameters())


def change(model, step, rank):
    """What an optimizer would do to the rows that are here."""
    torch.manual_seed(100 * step + rank)
    with torch.no_grad():
        for parameter in model.parameters():
            local = parameter.to_local()
            local += (torch.rand(local.shape) < 0.01).to(local.dtype)


def publisher_of(rank, folder, **options):
    return isthmus.Publisher(folder / "board", "run", rank=rank, ranks=RANKS, threads=1,
                             baseline=folder / f"baseline-{rank}", **options)


def steps(rank, folder):
    model = make_model()
    fully_shard(model, mesh=init_device_mesh("cpu", (RANKS,)))
    for background in (False, True):
        with publisher_of(rank, folder, background=background, check=True,
                          rank_deadline_s=DEADLINE_S) as publisher:
            for step in range(STEPS):
                change(model, step, rank)
                published = publisher.publish(model.named_parameters(), step=step)
                version = published.result() if background else published
                whole = {name: bits(parameter.full_tensor()) for name, parameter in model.named_parameters()}
                if rank == 0:
                    write(folder / f"{version.number}.json", {n: content.hex() for n, content in whole.items()})


def refusals(rank, folder):
    model = make_model()
    fully_shard(model, mesh=init_device_mesh("cpu", (RANKS,)))
    with publisher_of(rank, folder, rank_deadline_s=DEADLINE_S) as publisher:
        named = dict(model.named_parameters())
        if rank == 2:  # one rank has something else
            named["0.bias"] = named["0.bias"].to_local().float()
        try:
            publisher.publish(named, step=1)
            raise AssertionError("a rank had another dtype")
        except isthmus.InvalidError as error:
            assert "0.bias" in str(error), error
        try:
            publisher.publish(named)
            raise AssertionError("without a step")
        except isthmus.InvalidError as error:
            assert "needs a step" in str(error), error
        dist.barrier()
        version = publisher.publish(model.named_parameters(), step=2)
        assert version.number == 2, version


def placements(rank, folder):
    """Replicas, several mesh dimensions, columns."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    spread = {name: distribute_tensor(parameter.detach(), mesh, [Replicate(), Shard(0)])
              for name, parameter in make_model().named_parameters()}
    both = {name: distribute_tensor(parameter.detach(), mesh, [Shard(0), Shard(0)])
            for name, parameter in make_model().named_parameters()}
    with publisher_of(rank, folder, rank_deadline_s=DEADLINE_S) as publisher:
        assert publisher.publish(spread, step=1).changed == 0
        assert publisher.publish(both, step=2).changed == 0
        columns = distribute_tensor(torch.zeros(4, 4), mesh, [Replicate(), Shard(1)])
        try:
            publisher.publish({"columns": columns}, step=3)
            raise AssertionError("columns are no rows")
        except isthmus.InvalidError as error:
            assert "columns: its placement is" in str(error), error


def write(path, value):
    path.write_text(json.dumps(value))


def enter(rank, folder):
    """One rank, which starts once for all that is tried."""
    folder = pathlib.Path(folder)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=RANKS)
    for function in (steps, refusals, placements):
        try:
            function(rank, folder / function.__name__)
        except BaseException:
            (folder / function.__name__ / f"failed-{rank}").write_text(traceback.format_exc())
            raise
        dist.barrier()
    dist.destroy_process_group()


class RanksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-test-")
        cls.addClassCleanup(directory.cleanup)
        cls.folder = pathlib.Path(directory.name)
        for function in (steps, refusals, placements):
            (cls.folder / function.__name__ / "files").mkdir(parents=True)
            begin(cls.folder / function.__name__)
        try:
            torch.multiprocessing.spawn(enter, (str(cls.folder),), nprocs=RANKS)
        except Exception:
            for failed in sorted(cls.folder.glob("*/failed-*")):
                print(failed.parent.name, failed.name, failed.read_text(), file=sys.stderr)
            raise

    def test_versions_are_those_of_the_whole_model(self):
        folder = self.folder / "steps"
        log = isthmus.Board(folder / "board").log("run")
        self.assertEqual(len(log), 1 + 2 * STEPS)
        with isthmus.Replica(folder / "replica") as replica:
            for version in log[1:]:
                self.assertEqual(version.kind, "patch")
                replica.pull(folder / "board", "run", version.number)
                expected = json.loads((folder / f"{version.number}.json").read_text())
                self.assertEqual({n: c.hex() for n, c in read_tensors(folder / "replica").items()}, expected)

    def test_each_baseline_is_of_its_share(self):
        model_bytes = sum(p.numel() * 2 for p in make_model().parameters())
        for rank in range(RANKS):
            baseline = self.folder / "steps" / f"baseline-{rank}"
            # A share, and at most the rest of a chunk of 2 MiB at either end.
            self.assertLess((baseline / "regions").stat().st_size, model_bytes / RANKS + (4 << 20))
            self.assertFalse((baseline / "model.safetensors").exists())

    def test_a_rank_that_was_refused_made_no_version(self):
        self.assertEqual([v.step for v in isthmus.Board(self.folder / "refusals" / "board").log("run")], [None, 2])

    def test_replicas_and_several_mesh_dimensions_are_the_same_model(self):
        log = isthmus.Board(self.folder / "placements" / "board").log("run")
        self.assertEqual([v.changed for v in log[1:]], [0, 0])


if __name__ == "__main__":
    unittest.main()
