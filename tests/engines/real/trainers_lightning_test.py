#!/usr/bin/env python3
"""The callback in a real Lightning Trainer; skipped where Lightning is not installed."""

import importlib.util
import pathlib
import sys
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "python")]
from recording_publisher import RecordingPublisher  # noqa: E402

if importlib.util.find_spec("lightning") is None:
    raise unittest.SkipTest("lightning is not installed")
import lightning.pytorch as pl  # noqa: E402

from isthmus.trainers.lightning import PublishCallback  # noqa: E402


class Module(pl.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.policy = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 1))
        self.value = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        return (self.policy(batch) + self.value(batch)).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.1)


def fit(callback, batches, **options):
    module = Module()
    trainer = pl.Trainer(max_epochs=1, accelerator="cpu", devices=1, logger=False,
                         enable_checkpointing=False, enable_progress_bar=False,
                         enable_model_summary=False, callbacks=[callback], **options)
    trainer.fit(module, torch.utils.data.DataLoader(torch.randn(2 * batches, 4), batch_size=2))
    return module


class LightningTest(unittest.TestCase):

    def test_every_second_step_and_the_end(self):
        publisher = RecordingPublisher()
        module = fit(PublishCallback(publisher, every=2, model=lambda one: one.policy,
                                     meta=lambda trainer: {"epoch": trainer.current_epoch}), 5)
        self.assertEqual((publisher.steps, publisher.flushed), ([2, 4, 5], 1))
        self.assertEqual(publisher.versions[0][1], {"epoch": "0"})
        parameters = dict(module.policy.named_parameters())
        self.assertEqual(set(publisher.newest()), set(parameters))
        for name, tensor in parameters.items():
            self.assertTrue(torch.equal(publisher.newest()[name], tensor), name)

    def test_batches_whose_gradients_are_summed_up_are_no_steps(self):
        publisher = RecordingPublisher()
        fit(PublishCallback(publisher, at_begin=True), 6, accumulate_grad_batches=3)
        self.assertEqual(publisher.steps, [0, 1, 2])
        self.assertEqual(len(publisher.newest()), 6)

    def test_another_fit_publishes_its_own_steps(self):
        publisher = RecordingPublisher()
        callback = PublishCallback(publisher)
        fit(callback, 1)
        fit(callback, 1)
        self.assertEqual(publisher.steps, [1, 1])


if __name__ == "__main__":
    unittest.main()
