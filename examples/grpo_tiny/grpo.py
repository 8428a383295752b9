"""Group relative policy optimization on plain torch.

Advantages: DeepSeekMath, https://arxiv.org/abs/2402.03300; clipping with a higher upper bound:
DAPO, https://arxiv.org/abs/2503.14476. The ratio is that of the masters to whatever made the token, an
engine in BF16 or an older version: its log-probability came with the answer.
"""

import dataclasses
import statistics

import torch

import task

CLIP_BELOW, CLIP_ABOVE = 0.2, 0.28
LEAST_SPREAD = 1e-4


@dataclasses.dataclass(frozen=True)
class Sample:
    """One answer. logprobs: of its tokens, by whoever sampled them; versions: of each token."""

    question: task.Question
    tokens: list[int]
    logprobs: list[float]
    versions: list[int]

    @property
    def reward(self):
        return task.reward(self.question, self.tokens)


def advantages(groups):
    """Of each sample, in order: its reward less its group's mean, over the group's spread."""
    values = []
    for group in groups:
        rewards = [sample.reward for sample in group]
        spread = statistics.pstdev(rewards) + LEAST_SPREAD
        values += [(reward - statistics.fmean(rewards)) / spread for reward in rewards]
    return values


def batch_of(samples):
    """(ids, places of answers, logprobs): right-padded; prompts are of one length."""
    rows = [(*sample.question.prompt, *sample.tokens) for sample in samples]
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), task.END)
    mask = torch.zeros(len(rows), width - 1)
    logprobs = torch.zeros(len(rows), width - 1)
    for place, (row, sample) in enumerate(zip(rows, samples)):
        begin = len(sample.question.prompt) - 1
        ids[place, :len(row)] = torch.tensor(row)
        mask[place, begin:len(row) - 1] = 1
        logprobs[place, begin:len(row) - 1] = torch.tensor(sample.logprobs)
    return ids, mask, logprobs


def step(model, optimizer, groups, entropy_weight=0.0):
    """One step of the optimizer on all groups; returns what is worth a look."""
    samples = [sample for group in groups for sample in group]
    ids, mask, old = batch_of(samples)
    advantage = torch.tensor(advantages(groups))[:, None]
    logits = model(ids[:, :-1], use_cache=False).logits
    all_logprobs = torch.log_softmax(logits, -1)
    new = all_logprobs.gather(-1, ids[:, 1:, None])[..., 0]
    ratio = torch.exp((new - old) * mask)
    gain = torch.minimum(ratio * advantage,
                         ratio.clamp(1 - CLIP_BELOW, 1 + CLIP_ABOVE) * advantage)
    entropy = ((-all_logprobs.exp() * all_logprobs).sum(-1) * mask).sum() / mask.sum()
    loss = -(gain * mask).sum() / mask.sum() - entropy_weight * entropy
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return {"reward": sum(sample.reward for sample in samples) / len(samples),
            "solved": sum(sample.reward == 1 for sample in samples) / len(samples),
            "entropy": entropy.item(), "gradient_norm": norm.item(),
            "ratio_max": ratio[mask > 0].max().item()}
