"""How many threads write: on a CPU those that the engine may use, else one, which only launches."""

from __future__ import annotations

import torch


def count(device: torch.device) -> int:
    return torch.get_num_threads() if device.type == "cpu" else 1
