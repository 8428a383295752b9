#!/usr/bin/env python3
"""Trainers publish with the real Publisher to a board; what a replica pulls is what was trained."""

import importlib
import pathlib
import sys
import tempfile
import unittest

import safetensors.torch
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "examples" / "trainers")]

import isthmus  # noqa: E402
from isthmus.trainers.huggingface import PublishCallback  # noqa: E402
from isthmus.trainers.optimizer import OptimizerHook  # noqa: E402

CONFIG = dict(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
              num_attention_heads=2, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True)
EXAMPLES = ("prime_rl_style", "skyrl_style", "slime_style", "verl_style")


class PublishTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-trainer-")
        self.addCleanup(directory.cleanup)
        self.dir = pathlib.Path(directory.name)
        (self.dir / "files").mkdir()
        (self.dir / "files" / "config.json").write_text("{}", encoding="ascii")
        self.board = isthmus.Board(str(self.dir / "board"), create=True)

    def publisher(self, run="run", **options):
        made = isthmus.Publisher(self.board, run, baseline=self.dir / f"baseline-{run}", **options)
        self.addCleanup(made.close)
        return made

    def pulled(self, run="run", version=None):
        """The tensors of a version, through a replica of its own."""
        place = self.dir / f"replica-{run}-{version}"
        replica = isthmus.Replica(str(place))
        replica.pull(self.board, run, version)
        replica.close()
        tensors = {}
        for shard in place.glob("*.safetensors"):
            tensors |= safetensors.torch.load_file(shard)
        return tensors

    def assert_is(self, tensors, module):
        parameters = {name: value.detach() for name, value in module.named_parameters()}
        self.assertEqual(set(tensors), set(parameters))
        for name, value in parameters.items():
            self.assertTrue(torch.equal(tensors[name].view(torch.int32), value.view(torch.int32)), name)

    def test_a_hugging_face_trainer_in_the_background(self):
        torch.manual_seed(1)
        model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**CONFIG))
        begin = {name: value.detach().clone() for name, value in model.named_parameters()}
        rows = [{"input_ids": row, "labels": row} for row in torch.arange(8).repeat(8, 1)]
        arguments = transformers.TrainingArguments(
            output_dir=str(self.dir / "out"), max_steps=5, per_device_train_batch_size=2,
            use_cpu=True, report_to=[], save_strategy="no", learning_rate=0.01, disable_tqdm=True)
        publisher = self.publisher(background=True, checkpoint=None, files=self.dir / "files")
        transformers.Trainer(model, arguments, train_dataset=rows, callbacks=[PublishCallback(
            publisher, every=2, at_begin=True, meta=lambda state: {"epoch": state.epoch})]).train()
        log = self.board.log("run")
        self.assertEqual([version.step for version in log], [0, 2, 4, 5])
        self.assertEqual(log[-1].meta["epoch"], "1.25")
        self.assert_is(self.pulled(), model)
        first = self.pulled(version=1)
        for name, value in begin.items():
            self.assertTrue(torch.equal(first[name], value), name)

    def test_an_optimizer_and_a_served_view(self):
        torch.manual_seed(1)
        model = torch.nn.Linear(16, 16)
        optimizer = torch.optim.AdamW(model.named_parameters(), lr=0.1)
        publisher = self.publisher(project=lambda _, master: master.detach().to(torch.bfloat16))
        hook = OptimizerHook(publisher, optimizer)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 16)).square().sum().backward()
            optimizer.step()
        hook.close()
        self.assertEqual([version.step for version in self.board.log("run")], [1, 2, 3])
        for name, value in self.pulled().items():
            master = dict(model.named_parameters())[name].detach()
            self.assertTrue(torch.equal(value, master.to(torch.bfloat16)), name)

    def test_a_publisher_from_an_optimizer(self):
        torch.manual_seed(1)
        model = torch.nn.Linear(16, 16)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        options = {"baseline": self.dir / "baseline", "every": 2}
        with self.assertRaisesRegex(isthmus.InvalidError, "no names"):
            isthmus.Publisher.from_optimizer_hook(optimizer, self.board, "run", **options)
        publisher = isthmus.Publisher.from_optimizer_hook(
            optimizer, self.board, "run", named_parameters=model.named_parameters(), **options)
        for step in range(6):
            if step == 4:
                self.assert_is(self.pulled(), model)
                publisher.close()
            optimizer.zero_grad()
            model(torch.ones(2, 16)).square().sum().backward()
            optimizer.step()
        self.assertEqual([version.step for version in self.board.log("run")], [2, 4])

    def test_the_loops_of_the_examples(self):
        for name in EXAMPLES:
            with self.subTest(name):
                trainers = importlib.import_module(name).loop(
                    lambda name=name, **options: self.publisher(name, **options))
                self.assert_is(self.pulled(name), trainers[0].model)


if __name__ == "__main__":
    unittest.main()
