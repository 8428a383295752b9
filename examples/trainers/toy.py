"""What the examples share in place of a language model: a small torch module, and its steps."""

import argparse

import torch

STEPS = 3


class Policy(torch.nn.Module):
    def __init__(self, seed=1):
        super().__init__()
        torch.manual_seed(seed)
        self.embed = torch.nn.Linear(8, 16, bias=False)
        self.head = torch.nn.Linear(16, 8, bias=False)

    def forward(self, batch):
        return self.head(torch.tanh(self.embed(batch)))


class Trainer:
    """A policy and its optimizer."""

    def __init__(self):
        self.model = Policy()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)

    def train(self, batch):
        self.optimizer.zero_grad()
        (self.model(batch) - batch).square().mean().backward()
        self.optimizer.step()


def rollouts(seed):
    """A batch, in place of what a fleet would answer."""
    return torch.randn(32, 8, generator=torch.Generator().manual_seed(seed))


def main(loop, description):
    """loop(make_publisher): make_publisher(**options) makes an isthmus.Publisher of the run."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("board", help="a directory, s3://…, http(s)://…")
    parser.add_argument("run")
    options = parser.parse_args()
    import isthmus  # here: so that a test of the loop needs no publisher
    loop(lambda **more: isthmus.Publisher(options.board, options.run, **more))
