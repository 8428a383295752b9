#!/usr/bin/env python3
"""Publishing from an optimizer's steps, and what the callbacks share."""

import pathlib
import sys
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "python")]
from recording_publisher import RecordingPublisher, made_once  # noqa: E402

from isthmus import errors  # noqa: E402
from isthmus.trainers._steps import StepPublisher, plain_names  # noqa: E402
from isthmus.trainers.optimizer import OptimizerHook  # noqa: E402


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))


def train(module, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        module(torch.ones(5, 4)).square().sum().backward()
        optimizer.step()


class OptimizerTest(unittest.TestCase):

    def assert_published(self, publisher, module):
        self.assertEqual(set(publisher.newest()), set(dict(module.named_parameters())))
        for name, tensor in module.named_parameters():
            self.assertTrue(torch.equal(publisher.newest()[name], tensor), name)

    def test_each_step_is_a_version_of_the_weights_after_it(self):
        module, publisher = model(), RecordingPublisher()
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
        OptimizerHook(publisher, optimizer, module.named_parameters())  # kept by the optimizer
        for step in range(1, 4):
            train(module, optimizer, 1)
            self.assertEqual(publisher.steps, list(range(1, step + 1)))
            self.assert_published(publisher, module)
        changed = [not torch.equal(publisher.versions[0][2][name], tensor)
                   for name, tensor in publisher.newest().items()]
        self.assertTrue(all(changed))

    def test_every_third_step_and_the_last(self):
        module, publisher = model(), RecordingPublisher()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        hook = OptimizerHook(publisher, optimizer, module.named_parameters(), every=3,
                             first_step=11, meta=lambda step: {"twice": 2 * step})
        train(module, optimizer, 6)
        self.assertEqual(publisher.steps, [12, 15])
        self.assertEqual(publisher.versions[0][1], {"twice": "24"})
        hook.close()
        self.assertEqual((publisher.steps, publisher.flushed), ([12, 15, 16], 1))
        self.assert_published(publisher, module)
        train(module, optimizer, 6)
        self.assertEqual(publisher.steps, [12, 15, 16])

    def test_what_was_published_is_not_published_again_at_the_end(self):
        module, publisher = model(), RecordingPublisher()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        hook = OptimizerHook(publisher, optimizer, module.named_parameters(), every=2)
        train(module, optimizer, 2)
        hook.close()
        self.assertEqual((publisher.steps, publisher.flushed), ([2], 1))

    def test_names_from_the_optimizer(self):
        module, publisher = model(), RecordingPublisher()
        optimizer = torch.optim.AdamW(module.named_parameters())
        OptimizerHook(publisher, optimizer)
        train(module, optimizer, 1)
        self.assert_published(publisher, module)
        with self.assertRaisesRegex(errors.InvalidError, "no names"):
            OptimizerHook(publisher, torch.optim.AdamW(module.parameters()))

    def test_frozen_parameters_are_published_too(self):
        module, publisher = model(), RecordingPublisher()
        module[0].requires_grad_(False)
        optimizer = torch.optim.SGD([one for one in module.parameters() if one.requires_grad])
        OptimizerHook(publisher, optimizer, module.named_parameters())
        train(module, optimizer, 1)
        self.assert_published(publisher, module)

    def test_a_failure_comes_out_of_the_step(self):
        class Broken(RecordingPublisher):
            def publish(self, *_, **__):
                raise errors.UnavailableError("the store is away")
        module = model()
        optimizer = torch.optim.SGD(module.parameters())
        OptimizerHook(Broken(), optimizer, module.named_parameters())
        with self.assertRaisesRegex(errors.UnavailableError, "away"):
            train(module, optimizer, 1)


class StepsTest(unittest.TestCase):

    def test_names_without_wrappers(self):
        given = {"module.a.weight": "a.weight", "_orig_mod.b": "b", "x.module.y": "x.module.y",
                 "_fsdp_wrapped_module.l.0._checkpoint_wrapped_module.w": "l.0.w",
                 "module._orig_mod.c": "c"}
        self.assertEqual([name for name, _ in plain_names((name, 0) for name in given)],
                         list(given.values()))

    def test_a_compiled_model_has_its_own_names(self):
        module = model()
        wrapped = torch.compile(module)
        self.assertNotEqual([name for name, _ in wrapped.named_parameters()][0], "0.weight")
        self.assertEqual([name for name, _ in plain_names(wrapped.named_parameters())],
                         [name for name, _ in module.named_parameters()])

    def test_a_publisher_is_made_once_and_only_where_it_is_needed(self):
        tensors = lambda: model().named_parameters()  # noqa: E731
        with made_once() as (make, made):
            steps = StepPublisher(make, 1, all_ranks=False)
            steps.after_step(1, tensors, is_lead=False)
            steps.at_end(1, tensors, is_lead=False)
            self.assertEqual(made, [])
            steps.after_step(1, tensors, is_lead=True)
            steps.after_step(2, tensors, is_lead=True)
            self.assertEqual(made[0].steps, [1, 2])

    def test_all_ranks_publish_if_told_to(self):
        publisher = RecordingPublisher()
        steps = StepPublisher(publisher, 1, all_ranks=True)
        steps.after_step(1, lambda: model().named_parameters(), is_lead=False)
        steps.at_end(2, lambda: model().named_parameters(), is_lead=False)
        self.assertEqual((publisher.steps, publisher.flushed), ([1, 2], 1))

    def test_every(self):
        for every in (0, -1, 1.5, None):
            with self.assertRaises(errors.InvalidError):
                StepPublisher(RecordingPublisher(), every, all_ranks=False)


if __name__ == "__main__":
    unittest.main()
