"""Proves that the engine computes with the memory that will be written to.

A backend may keep a copy of its own in another layout and multiply by that: then a write changes no
answer, and nobody is told. So each layer is asked the same question twice, with one weight changed
in between; the weight is put back.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from vllm.model_executor.layers.attention import is_deferred_attention_layer
from vllm.model_executor.layers.fused_moe.routed_experts import RoutedExperts
from vllm.model_executor.layers.layernorm import RMSNorm
from vllm.model_executor.layers.linear import LinearBase
from vllm.model_executor.layers.vocab_parallel_embedding import (
    ParallelLMHead,
    VocabParallelEmbedding,
)

Question = Callable[[], torch.Tensor]


def unproven(model: torch.nn.Module, parameters: set[str]) -> dict[str, str]:
    """{parameter: reason} of those of these parameters that are not proven to be in use. Every layer
    that has one must use it: an embedding, and the output matrix tied to it."""
    reasons: dict[str, str] = {}
    names = {id(tensor): name for name, tensor in model.named_parameters() if name in parameters}
    with torch.no_grad():
        for module in model.modules():
            for own_name, tensor in module.named_parameters(recurse=False):
                if id(tensor) in names and (reason := _doubt(module, own_name, tensor)):
                    reasons[names[id(tensor)]] = reason
    # Latent attention multiplies by matrices that it made of its projection's weights at the load.
    for module in filter(is_deferred_attention_layer, model.modules()):
        for tensor in module.parameters():
            if id(tensor) in names:
                reasons[names[id(tensor)]] = f"{type(module).__name__} computes with what it made of it"
    for buffer in parameters - set(names.values()):
        reasons[buffer] = "it is no parameter of a layer that could be tried"
    return reasons


def _doubt(module: torch.nn.Module, name: str, tensor: torch.Tensor) -> str | None:
    kind = type(module).__name__
    try:
        question = _question(module, name)
    except Exception as error:
        return f"trying {kind}.{name} failed: {error!r}"
    if question is None:
        return f"no question is known that shows whether {kind} uses its {name}"
    try:
        return None if _answer_changes(question, tensor) else (
            f"a write to {kind}.{name} changes no answer: the engine computes with a copy")
    except Exception as error:
        return f"trying {kind}.{name} failed: {error!r}"


def _answer_changes(question: Question, tensor: torch.Tensor) -> bool:
    """Whether another first weight gives another answer."""
    first = tensor.data.as_strided((1,), (1,), tensor.storage_offset())
    old, answers = first.clone(), []
    try:
        for value in (3.0, -24.0):
            first.fill_(value)
            answers.append(question().clone())
    finally:
        first.copy_(old)
    return not _same(*answers)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


def _question(module: torch.nn.Module, name: str) -> Question | None:
    if isinstance(module, RoutedExperts):
        return _ask_experts(module)
    if isinstance(module, ParallelLMHead):
        return _ask_linear(module, module.embedding_dim)
    if isinstance(module, VocabParallelEmbedding):
        token = torch.zeros(1, dtype=torch.int64, device=module.weight.device)
        return lambda: module.quant_method.embedding(module, token)
    if isinstance(module, LinearBase):
        return _ask_linear(module, getattr(module, "input_size_per_partition", module.input_size))
    if isinstance(module, RMSNorm) and name == "weight":
        return lambda: module(_ones(module.weight, module.weight.shape[0]))
    return None


def _ask_linear(module: torch.nn.Module, inputs: int) -> Question:
    return lambda: module.quant_method.apply(
        module, _ones(module.weight, inputs), getattr(module, "bias", None))


def _ask_experts(module: RoutedExperts) -> Question:
    """The first expert alone."""
    device = module.w13_weight.device
    weights = torch.ones((1, module.top_k), dtype=torch.float32, device=device) / module.top_k
    experts = torch.arange(module.top_k, dtype=torch.int32, device=device)[None]
    return lambda: module.quant_method.apply(
        layer=module, x=_ones(module.w13_weight, module.hidden_size), topk_weights=weights,
        topk_ids=experts, shared_experts=None, shared_experts_input=None)


def _ones(weight: torch.Tensor, inputs: int) -> torch.Tensor:
    return torch.ones((1, inputs), dtype=weight.dtype, device=weight.device)
