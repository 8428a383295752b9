#!/usr/bin/env python3
"""The map from a checkpoint's positions to memory, on vLLM's own model classes: dense and mixtures,
shared by workers, and where it must not close."""

import multiprocessing
import pathlib
import tempfile
import unittest
from unittest import mock

import models
import changes_files
import make_model
import make_qwen3
import numpy as np
import torch
from isthmus.vllm import canary, position_map, units
from isthmus.vllm.checkpoint import Checkpoint
from isthmus.vllm.errors import TransferError
from isthmus.vllm.transfer import InitInfo, IsthmusTransferEngine, UpdateInfo

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
SMALL = {**make_qwen3.CONFIG, "num_hidden_layers": 2}
# vLLM pads the vocabulary to a multiple of 64; the padding is of no tensor.
CONFIGS = {
    "qwen3": SMALL,
    "qwen3 untied, odd vocabulary": {**SMALL, "tie_word_embeddings": False, "vocab_size": 509},
    "qwen3 mixture": {**SMALL, **make_qwen3.MOE, "tie_word_embeddings": False},
    "qwen3 mixture, padded experts": {**SMALL, **make_qwen3.MOE, "moe_intermediate_size": 80},
    "llama": {**SMALL, **LLAMA, "tie_word_embeddings": False},
    "llama tied": {**SMALL, **LLAMA},
}


def make_checkpoint(directory, config, seed):
    random_values = np.random.Generator(np.random.PCG64(seed))
    tensors = {name: ("BF16", shape, make_model.to_bf16(make_model.random_values(
        shape, random_values))) for name, shape in make_qwen3.tensor_shapes(config).items()
        if config["model_type"] != "llama" or "_norm." not in name}
    make_model.write_checkpoint(directory, tensors, config)
    make_qwen3.write_tokenizer(pathlib.Path(directory), config["vocab_size"])
    return pathlib.Path(directory)


def engine_on(checkpoint, **options):
    config, model = models.load(checkpoint, **options)
    return IsthmusTransferEngine(None, config, torch.device("cpu"), model)


def init(engine, checkpoint):
    engine.init_transfer_engine(InitInfo(1, str(checkpoint), changes_files.digest(checkpoint)))


def switch(engine, folder, old, new):
    file = changes_files.make(folder / f"{old.name}-{new.name}.safetensors", old, new)
    engine.start_weight_update()
    engine.receive_weights(UpdateInfo(1, str(file), changes_files.digest(old)))
    engine.finish_weight_update()


def memory_of(model):
    return {name: units.of_storage(tensor).clone() for name, tensor in model.named_parameters()}


class MapTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-map-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)

    def checkpoints(self, config, count=2):
        return [make_checkpoint(self.dir / f"seed-{seed}", config, seed) for seed in range(count)]

    def test_every_element_has_one_place_and_it_holds_the_checkpoints_bits(self):
        for name, config in CONFIGS.items():
            with self.subTest(name):
                checkpoint = make_checkpoint(self.dir / name, config, 1)
                _, model = models.load(checkpoint)
                with Checkpoint(str(checkpoint)) as opened:
                    found = position_map.learn(model, opened)
                    self.assertEqual(found.open, {})
                    for tensor, places in found.places.items():
                        self.assert_place(places, units.of_tensor(opened.tensor(tensor)))

    def assert_place(self, places, bits):
        self.assertEqual([place.box.count for place in places], [len(bits)])
        box, storage = places[0].box, places[0].storage
        positions = torch.arange(len(bits))
        inside, where = box.locate(positions)
        self.assertTrue(inside.all())
        self.assertTrue(torch.equal(storage[where], bits))
        self.assertTrue(torch.equal(storage[box.locate_all(positions)], bits))

    def test_a_switch_leaves_what_a_fresh_load_of_the_new_version_has(self):
        """Every weight changes. Of experts, too, whose packing a reload does not repeat."""
        for name, config in CONFIGS.items():
            with self.subTest(name):
                old, new = self.checkpoints(config)
                fresh = memory_of(models.load(new)[1])
                engine = engine_on(old)
                init(engine, old)
                switch(engine, self.dir, old, new)
                held = memory_of(engine.model)
                self.assertEqual(held.keys(), fresh.keys())
                for parameter, bits in fresh.items():
                    self.assertTrue(torch.equal(held[parameter], bits), parameter)

    def test_learning_writes_nothing(self):
        checkpoint = make_checkpoint(self.dir / "one", CONFIGS["qwen3 mixture"], 1)
        _, model = models.load(checkpoint)
        before = memory_of(model)
        with Checkpoint(str(checkpoint)) as opened:
            canary.unproven(model, position_map.learn(model, opened).parameters())
        for parameter, bits in memory_of(model).items():
            self.assertTrue(torch.equal(before[parameter], bits), parameter)

    # Where it must not close

    def test_weights_that_a_backend_packed_are_refused_by_name(self):
        """vLLM as it comes packs matrices on CPUs; on some it leaves them as they are."""
        old, new = self.checkpoints(CONFIGS["llama"])
        config, model = models.load(old, backend=None)
        packed = model.model.layers[0].mlp.down_proj.weight.numel() == 0
        engine = IsthmusTransferEngine(None, config, torch.device("cpu"), model)
        init(engine, old)
        if not packed:
            self.skipTest("this CPU packs nothing of BF16")
        with self.assertRaisesRegex(TransferError, "cannot be changed in place"):
            switch(engine, self.dir, old, new)
        self.assertIn("computes with a copy", engine._learned[2]["lm_head.weight"])

    def test_what_attention_derives_matrices_from_is_left_open(self):
        checkpoint = make_checkpoint(self.dir / "one", CONFIGS["llama"], 1)
        _, model = models.load(checkpoint)
        attention = model.model.layers[0].self_attn
        with Checkpoint(str(checkpoint)) as opened:
            parameters = position_map.learn(model, opened).parameters()
        with mock.patch.object(canary, "is_deferred_attention_layer", lambda m: m is attention):
            reasons = canary.unproven(model, parameters)
        self.assertEqual(sorted(reasons), ["model.layers.0.self_attn.o_proj.weight",
                                           "model.layers.0.self_attn.qkv_proj.weight"])

    def test_loaders_that_compute_leave_their_tensor_open(self):
        checkpoint = make_checkpoint(self.dir / "one", CONFIGS["llama"], 1)
        _, model = models.load(checkpoint)
        norm = model.model.norm.weight
        for loader, reason in (
                (lambda param, loaded: param.data.copy_(loaded + 1), "computes with aten.add"),
                (lambda param, loaded: param.data.add_(loaded), "ends in aten.add_"),
                (lambda param, loaded: param.data.copy_(loaded.float()), "computes|casts"),
                (lambda param, loaded: param.data.copy_(loaded.flip(0)), "computes with aten.flip"),
                (lambda param, loaded: param.data.copy_(loaded[:1].expand(256)), "not regular"),
                (lambda param, loaded: loaded.tolist(), "raised")):
            norm.weight_loader = loader
            with self.subTest(reason), Checkpoint(str(checkpoint)) as opened:
                found = position_map.learn(model, opened)
                self.assertEqual(list(found.open), ["model.norm.weight"])
                self.assertRegex(found.open["model.norm.weight"], reason)

    def test_a_checkpoint_of_other_shapes_is_refused(self):
        checkpoint = make_checkpoint(self.dir / "one", CONFIGS["llama"], 1)
        other = make_checkpoint(self.dir / "other", {**CONFIGS["llama"], "hidden_size": 128}, 1)
        with self.assertRaisesRegex(TransferError, "none of its tensors"):
            init(engine_on(checkpoint), other)


def worker(rank, ranks, folder, config, answers):
    """One of the workers that share each layer: a switch forward, a damaged one, and back."""
    try:
        answers.put((rank, worker_checks(rank, ranks, pathlib.Path(folder), config)))
    except BaseException as error:
        answers.put((rank, repr(error)))
        raise


def worker_checks(rank, ranks, folder, config):
    old, new = folder / "seed-0", folder / "seed-1"
    engine = engine_on(old, rank=rank, ranks=ranks, meeting=folder / "meeting")
    init(engine, old)
    assert engine._learned[2] == {}, engine._learned[2]
    before = memory_of(engine.model)
    switch(engine, folder / f"files-{rank}", old, new)
    init(engine, new)  # compares what this worker holds with the checkpoint
    damaged = folder / f"files-{rank}" / "damaged"
    entries, described = changes_files.between(
        *map(changes_files.read_checkpoint, (new, old)))
    described["model.layers.1.mlp.down_proj.weight" if "num_experts" not in config
              else "model.layers.1.mlp.experts.7.down_proj.weight"][2] = "0" * 16
    changes_files.write(damaged, entries, described, *map(changes_files.digest, (new, old)))
    engine.start_weight_update()
    try:
        engine.receive_weights(UpdateInfo(1, str(damaged), changes_files.digest(new)))
        return "a damaged file was taken"
    except TransferError as error:
        assert error.code == "corrupt", error
    # One worker's file is missing: the others must refuse too, and none may wait for it.
    file = changes_files.make(folder / f"files-{rank}" / "back", new, old)
    engine.start_weight_update()
    try:
        engine.receive_weights(UpdateInfo(1, str(file) + ("x" if rank else ""),
                                          changes_files.digest(new)))
        return "an update that a worker cannot read was taken"
    except TransferError as error:
        assert error.code == "not-found" and "worker 1" in str(error), error
    init(engine, new)
    engine.start_weight_update()
    engine.receive_weights(UpdateInfo(1, str(file), changes_files.digest(new)))
    engine.finish_weight_update()
    for parameter, bits in memory_of(engine.model).items():
        assert torch.equal(before[parameter], bits), parameter
    return "ok"


class WorkersTest(unittest.TestCase):
    """Two processes share each layer over gloo, as tensor parallel workers do."""

    def check(self, config, ranks=2):
        with tempfile.TemporaryDirectory(prefix="isthmus-workers-") as folder:
            folder = pathlib.Path(folder)
            for seed in range(2):
                make_checkpoint(folder / f"seed-{seed}", config, seed)
            context = multiprocessing.get_context("spawn")
            answers, processes = context.Queue(), []
            for rank in range(ranks):
                (folder / f"files-{rank}").mkdir()
                processes.append(context.Process(target=worker, args=(
                    rank, ranks, str(folder), config, answers), daemon=True))
                processes[-1].start()
            said = dict(answers.get(timeout=300) for _ in processes)
            for process in processes:
                process.join(60)
            self.assertEqual(said, dict.fromkeys(range(ranks), "ok"))

    def test_slices_of_dense_layers(self):
        self.check(CONFIGS["qwen3 untied, odd vocabulary"])

    def test_heads_that_both_workers_hold(self):
        self.check({**SMALL, "num_key_value_heads": 1})

    def test_slices_of_experts(self):
        self.check(CONFIGS["qwen3 mixture"])


if __name__ == "__main__":
    unittest.main()
