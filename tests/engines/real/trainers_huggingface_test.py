#!/usr/bin/env python3
"""The callback in a real Hugging Face Trainer, which trains a tiny Qwen3 on the CPU."""

import pathlib
import sys
import tempfile
import unittest

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "python")]
from recording_publisher import RecordingPublisher, made_once  # noqa: E402

from isthmus import errors  # noqa: E402
from isthmus.trainers.huggingface import PublishCallback  # noqa: E402

CONFIG = dict(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
              num_attention_heads=2, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True)


def model():
    torch.manual_seed(1)
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**CONFIG))


def rows(count):
    ids = torch.arange(8).repeat(count, 1)
    return [{"input_ids": row, "labels": row} for row in ids]


class HuggingFaceTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="isthmus-trainer-")
        self.addCleanup(directory.cleanup)
        self.dir = directory.name

    def train(self, callback, steps, **options):
        trained = model()
        arguments = transformers.TrainingArguments(
            output_dir=self.dir, max_steps=steps, per_device_train_batch_size=2, use_cpu=True,
            report_to=[], save_strategy="no", learning_rate=0.01, disable_tqdm=True, **options)
        trainer = transformers.Trainer(trained, arguments, train_dataset=rows(8),
                                       callbacks=[callback])
        trainer.train()
        return trained

    def assert_newest_is(self, publisher, trained):
        parameters = dict(trained.named_parameters())
        self.assertEqual(set(publisher.newest()), set(parameters))
        for name, tensor in parameters.items():
            self.assertTrue(torch.equal(publisher.newest()[name], tensor), name)

    def test_every_second_step_and_the_end(self):
        publisher = RecordingPublisher()
        trained = self.train(PublishCallback(publisher, every=2), 5)
        self.assertEqual((publisher.steps, publisher.flushed), ([2, 4, 5], 1))
        self.assert_newest_is(publisher, trained)
        first, second = (publisher.versions[place][2] for place in (0, 1))
        self.assertTrue(all(not torch.equal(first[name], second[name]) for name in first))

    def test_the_beginning_if_it_is_asked_for(self):
        publisher = RecordingPublisher()
        self.train(PublishCallback(publisher, every=4, at_begin=True), 4)
        self.assertEqual((publisher.steps, publisher.flushed), ([0, 4], 1))
        for name, tensor in model().named_parameters():
            self.assertTrue(torch.equal(publisher.versions[0][2][name], tensor), name)

    def test_steps_are_the_optimizers(self):
        publisher = RecordingPublisher()
        self.train(PublishCallback(publisher), 2, gradient_accumulation_steps=3)
        self.assertEqual(publisher.steps, [1, 2])

    def test_names_of_the_model_and_of_the_state(self):
        publisher = RecordingPublisher()
        self.train(PublishCallback(
            publisher, meta=lambda state: {"epoch": state.epoch},
            tensors=lambda one: [("norm", one.model.norm.weight)]), 1)
        step, meta, tensors = publisher.versions[0]
        self.assertEqual((step, meta, list(tensors)), (1, {"epoch": "0.25"}, ["norm"]))

    def test_a_publisher_may_be_made_in_the_training(self):
        with made_once() as (make, made):
            self.train(PublishCallback(make), 2)
            self.assertEqual(made[0].steps, [1, 2])

    def test_a_failure_ends_the_training(self):
        class Broken(RecordingPublisher):
            def publish(self, *_, **__):
                raise errors.UnavailableError("the store is away")
        with self.assertRaisesRegex(errors.UnavailableError, "away"):
            self.train(PublishCallback(Broken()), 2)

    def test_other_processes_than_zero_leave_it_to_that_one(self):
        state = transformers.TrainerState(global_step=1, is_world_process_zero=False)
        control = transformers.TrainerControl()
        publisher = RecordingPublisher()
        callback = PublishCallback(publisher)
        for event in (callback.on_step_end, callback.on_train_end):
            event(None, state, control, model=model())
        self.assertEqual((publisher.versions, publisher.flushed), ([], 0))


if __name__ == "__main__":
    unittest.main()
