"""From logits to a token: greedy, or by temperature with a seed."""

import numpy as np


def log_softmax(logits):
    """float64 log-probabilities (vocab) of float32 logits."""
    shifted = logits.astype(np.float64) - float(logits.max())
    return shifted - np.log(np.exp(shifted).sum())


class Sampler:
    """One request's random stream; temperature 0 is greedy. Equal seeds give equal draws."""

    def __init__(self, temperature, seed):
        self._temperature = temperature
        self._random = np.random.Generator(np.random.PCG64(seed))

    def choose(self, logprobs):
        """A token id drawn from `logprobs` (float64, vocab) after the temperature."""
        if self._temperature == 0:
            return int(np.argmax(logprobs))
        scaled = logprobs / self._temperature
        weights = np.exp(scaled - scaled.max()).cumsum()
        place = np.searchsorted(weights, self._random.random() * weights[-1], side="right")
        return min(int(place), len(weights) - 1)


def top_logprobs(logprobs, count):
    """[(token id, logprob)] of the `count` likeliest tokens, the likeliest first."""
    best = np.argsort(-logprobs, kind="stable")[:count]
    return [(int(token), float(logprobs[token])) for token in best]
