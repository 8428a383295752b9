"""A small Qwen3 with FP32 masters, and the BF16 view of it that engines serve."""

import hashlib
import json
import pathlib

import safetensors.torch
import tokenizers
import torch
import transformers

import task


def config(hidden=192, layers=4):
    return transformers.Qwen3Config(
        vocab_size=task.VOCABULARY, hidden_size=hidden, intermediate_size=3 * hidden,
        num_hidden_layers=layers, num_attention_heads=hidden // 32, num_key_value_heads=2,
        head_dim=32, max_position_embeddings=4096, tie_word_embeddings=True,
        bos_token_id=task.BEGIN, eos_token_id=task.END, pad_token_id=task.END)


def new(seed, **shape):
    """Random FP32 weights: equal seeds give equal bits."""
    torch.manual_seed(seed)
    return transformers.Qwen3ForCausalLM(config(**shape)).float().train()


def served_view(model):
    """(name, BF16 tensor) of each master: what is published. Tied weights have one name."""
    for name, master in model.named_parameters():
        yield name, master.detach().to(torch.bfloat16)


def serving_copy(model):
    """A model of the served bits, for sampling in this process."""
    copy = transformers.Qwen3ForCausalLM(model.config).to(torch.bfloat16).eval()
    refresh(copy, model)
    return copy


@torch.no_grad()
def refresh(copy, model):
    """Brings a serving copy to the masters' present view; the fraction of elements that changed."""
    changed = elements = 0
    parameters = dict(copy.named_parameters())
    for name, served in served_view(model):
        held = parameters[name]
        changed += (held.view(torch.int16) != served.view(torch.int16)).sum().item()
        elements += held.numel()
        held.copy_(served)
    return changed / elements


def digest(model):
    """SHA-256 of the masters' bits, in the order of their names."""
    hashed = hashlib.sha256()
    for name, master in sorted(model.named_parameters()):
        hashed.update(name.encode())
        hashed.update(master.detach().contiguous().view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()


def save(model, directory):
    """A checkpoint of the served view as engines load it."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {name: served.contiguous() for name, served in served_view(model)}
    safetensors.torch.save_file(tensors, directory / "model.safetensors", {"format": "pt"})
    facts = {**model.config.to_dict(), "architectures": ["Qwen3ForCausalLM"],
             "dtype": "bfloat16", "torch_dtype": "bfloat16"}
    (directory / "config.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    _save_tokenizer(directory)


def _save_tokenizer(directory):
    """One word a token: engines want one, though prompts and answers are ids."""
    words = [*map(str, range(10)), "<end>", "<asks>", "<begin>", "<13>", "<14>", "<15>"]
    model = tokenizers.models.WordLevel(dict(zip(words, range(task.VOCABULARY))), words[-1])
    tokenizers.Tokenizer(model).save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": words[task.END],
         "model_max_length": 4096}), encoding="utf-8")
