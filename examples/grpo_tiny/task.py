"""Tasks on short strings of digits, whose answers a line of Python checks."""

import dataclasses
import random

END, ASKS, BEGIN = 10, 11, 12  # token ids above the digits, each of which is its own id
VOCABULARY = 16
RIGHT = {"copy": list, "reverse": lambda digits: digits[::-1], "sort": sorted}


@dataclasses.dataclass(frozen=True)
class Question:
    """prompt, answer: token ids; the right answer ends with END."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]


class Task:
    """Questions drawn from a seed: equal seeds give equal questions."""

    def __init__(self, name, digits, seed):
        self._right, self.digits = RIGHT[name], digits
        self._random = random.Random(seed)

    @property
    def answer_length(self):
        return self.digits + 1

    def question(self):
        digits = [self._random.randrange(10) for _ in range(self.digits)]
        return Question((BEGIN, *digits, ASKS), (*self._right(digits), END))


def reward(question, tokens):
    """The fraction of the answer's places that are right: 1 for the right answer, END included."""
    pairs = zip(question.answer, tokens)
    return sum(wanted == given for wanted, given in pairs) / len(question.answer)
