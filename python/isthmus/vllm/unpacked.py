"""Keeps vLLM's CPU build from packing matrices: a layer then multiplies by its parameter itself.

vLLM packs what torch or oneDNN can pack (on AVX-512 and AMX every dtype, on AVX2 FP32) when a model
is loaded, drops the parameter of linear layers and leaves that of the output matrix without use: a
write to either changes no product. Without packing, products are torch's own on the plain weights.
"""

from __future__ import annotations

import functools

import torch

BACKEND = "isthmus"


def keep_unpacked() -> None:
    """Wraps the function that packs, once a process. It stays as it was unless the engine runs with
    this backend."""
    from vllm.model_executor.layers import utils

    original = getattr(utils, "dispatch_cpu_unquantized_gemm", None)
    if original is None or hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def dispatch(layer: torch.nn.Module, *args, **kwargs) -> None:
        if _is_in_use() and layer.weight.ndim == 2:
            layer.cpu_linear = torch.nn.functional.linear
            return
        original(layer, *args, **kwargs)

    utils.dispatch_cpu_unquantized_gemm = dispatch


def _is_in_use() -> bool:
    from vllm.config.vllm import get_current_vllm_config_or_none

    config = get_current_vllm_config_or_none()
    transfer = getattr(config, "weight_transfer_config", None)
    return transfer is not None and transfer.backend == BACKEND
