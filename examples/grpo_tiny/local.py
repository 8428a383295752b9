"""Sampling in the trainer's own process, from a BF16 copy: for finding hyperparameters."""

import torch

import grpo
import task


@torch.no_grad()
def answers(model, questions, group, length, version, generator):
    """`group` samples of each question, at temperature 1, of at most `length` tokens."""
    ids = torch.tensor([question.prompt for question in questions]).repeat_interleave(group, 0)
    tokens, logprobs, cache = [], [], None
    for _ in range(length):
        output = model(ids, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        known = torch.log_softmax(output.logits[:, -1].float(), -1)
        ids = torch.multinomial(known.exp(), 1, generator=generator)
        tokens.append(ids[:, 0])
        logprobs.append(known.gather(-1, ids)[:, 0])
    rows = zip(torch.stack(tokens, 1).tolist(), torch.stack(logprobs, 1).tolist())
    samples = [_ended(questions[place // group], row, values, version)
               for place, (row, values) in enumerate(rows)]
    return [samples[first:first + group] for first in range(0, len(samples), group)]


def _ended(question, row, values, version):
    """Without what comes behind the end."""
    count = row.index(task.END) + 1 if task.END in row else len(row)
    return grpo.Sample(question, row[:count], values[:count], [version] * count)
