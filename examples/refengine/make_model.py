#!/usr/bin/env python3
"""Writes a small random checkpoint in the form of Qwen3: BF16, two shards, index, config.

make_model.py DIRECTORY [--seed N]

About 390 thousand parameters. Equal seeds give equal bytes; another seed gives another "version" of
the same model.
"""

import argparse
import json
import pathlib
import struct

import numpy as np

CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu",
    "hidden_size": 96, "intermediate_size": 256, "num_hidden_layers": 3,
    "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 24, "vocab_size": 512,
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
    "tie_word_embeddings": True, "attention_bias": False, "torch_dtype": "bfloat16",
}


def tensor_shapes(config):
    """{name: shape} in the order of the layers."""
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q_size, kv_size = (config[key] * head for key in ("num_attention_heads", "num_key_value_heads"))
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    for layer in range(config["num_hidden_layers"]):
        for name, shape in (
                ("input_layernorm", (hidden,)), ("self_attn.q_proj", (q_size, hidden)),
                ("self_attn.k_proj", (kv_size, hidden)), ("self_attn.v_proj", (kv_size, hidden)),
                ("self_attn.q_norm", (head,)), ("self_attn.k_norm", (head,)),
                ("self_attn.o_proj", (hidden, q_size)), ("post_attention_layernorm", (hidden,)),
                ("mlp.gate_proj", (inner, hidden)), ("mlp.up_proj", (inner, hidden)),
                ("mlp.down_proj", (hidden, inner))):
            shapes[f"model.layers.{layer}.{name}.weight"] = shape
    shapes["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    return shapes


def random_values(shape, random):
    """float32: norms near 1, matrices scaled so that their products keep the input's size."""
    values = random.standard_normal(shape, np.float32)
    return 1 + 0.1 * values if len(shape) == 1 else values / np.sqrt(np.float32(shape[-1]))


def to_bf16(values):
    """float32 rounded to the nearest BF16 (ties to even), as little-endian bytes."""
    bits = np.ascontiguousarray(values, "<f4").view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()


def write_shard(path, tensors):
    """tensors: {name: (dtype, shape, bytes)}"""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape),
                        "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    body = b"".join(data for _, _, data in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def write_checkpoint(directory, tensors, config, shards=2):
    """tensors: {name: (dtype, shape, bytes)}, cut into `shards` files in the given order."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    names, weight_map = list(tensors), {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = names[len(names) * shard // shards:len(names) * (shard + 1) // shards]
        write_shard(directory / file, {name: tensors[name] for name in part})
        weight_map.update(dict.fromkeys(part, file))
    total = sum(len(data) for _, _, data in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    write_json(directory / "model.safetensors.index.json", index)
    write_json(directory / "config.json", config)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def make(directory, seed=0, config=None):
    """Writes a random checkpoint of `config` (CONFIG by default)."""
    config = config or CONFIG
    random = np.random.Generator(np.random.PCG64(seed))
    tensors = {name: ("BF16", shape, to_bf16(random_values(shape, random)))
               for name, shape in tensor_shapes(config).items()}
    write_checkpoint(directory, tensors, config)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    make(options.directory, options.seed)


if __name__ == "__main__":
    main()
