#!/usr/bin/env python3
"""Writes small random Qwen3 checkpoints with a tokenizer, and what AdamW-like steps make of them.

make_qwen3.py DIRECTORY [--steps N] [--seed N] [--moe] [--untied]

Writes DIRECTORY/step-0 to DIRECTORY/step-N: BF16, two shards, about 2.4 million parameters; with
--moe a mixture of eight experts a layer. Equal options give equal bytes. Needs numpy and the
tokenizers library; vLLM's environment has both.
"""

import argparse
import pathlib
import sys

import numpy as np
import tokenizers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "refengine"))
import make_model  # noqa: E402

# Longest: a generation that is still under way when a switch begins must have room to go on.
CONFIG = {**make_model.CONFIG, "hidden_size": 256, "intermediate_size": 768,
          "num_attention_heads": 8, "head_dim": 32, "eos_token_id": 256, "bos_token_id": 256,
          "max_position_embeddings": 8192}
MOE = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 8,
       "num_experts_per_tok": 2, "moe_intermediate_size": 256, "decoder_sparse_step": 1,
       "mlp_only_layers": [], "norm_topk_prob": True, "router_aux_loss_coef": 0.0}
END_OF_TEXT = "<|endoftext|>"
CHAT_TEMPLATE = ("{% for message in messages %}{{ message.role }}: {{ message.content }}\n"
                 "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}")


def config(moe=False, tied=True):
    return {**CONFIG, **(MOE if moe else {}), "tie_word_embeddings": tied}


def tensor_shapes(config):
    """{name: shape}; of a mixture, each layer's dense matrices give way to a router and experts."""
    shapes = {}
    for name, shape in make_model.tensor_shapes(config).items():
        if "num_experts" not in config or ".mlp." not in name:
            shapes[name] = shape
        elif name.endswith("gate_proj.weight"):
            shapes.update(_expert_shapes(config, name.removesuffix("gate_proj.weight")))
    return shapes


def _expert_shapes(config, prefix):
    hidden, inner = config["hidden_size"], config["moe_intermediate_size"]
    shapes = {f"{prefix}gate.weight": (config["num_experts"], hidden)}
    for expert in range(config["num_experts"]):
        for name, shape in (("gate_proj", (inner, hidden)), ("up_proj", (inner, hidden)),
                            ("down_proj", (hidden, inner))):
            shapes[f"{prefix}experts.{expert}.{name}.weight"] = shape
    return shapes


class Trainer:
    """FP32 masters under AdamW without weight decay, on gradients that are noise.

    The noise costs the loss its meaning and nothing else: what a patch sees is which BF16 values an
    update of about the learning rate moves over a rounding boundary.
    """

    def __init__(self, seed=0, moe=False, tied=True, learning_rate=1e-6):
        self.config = config(moe, tied)
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._learning_rate = np.float32(learning_rate)
        self.step_count = 0
        self._masters = {name: make_model.random_values(shape, self._random)
                         for name, shape in tensor_shapes(self.config).items()}
        self._moments = {name: (np.zeros_like(value), np.zeros_like(value))
                         for name, value in self._masters.items()}

    def step(self):
        self.step_count += 1
        for name, master in self._masters.items():
            gradient = self._random.standard_normal(master.shape, np.float32)
            first, second = self._moments[name]
            first += np.float32(0.1) * (gradient - first)
            second += np.float32(0.001) * (gradient * gradient - second)
            mean = first / np.float32(1 - 0.9**self.step_count)
            square = second / np.float32(1 - 0.999**self.step_count)
            master -= self._learning_rate * mean / (np.sqrt(square) + np.float32(1e-8))

    def save(self, directory):
        """Writes the masters, rounded to BF16, as a checkpoint."""
        tensors = {name: ("BF16", master.shape, make_model.to_bf16(master))
                   for name, master in self._masters.items()}
        make_model.write_checkpoint(directory, tensors, self.config)
        write_tokenizer(pathlib.Path(directory), self.config["vocab_size"])
        return pathlib.Path(directory)


def write_tokenizer(directory, vocab_size):
    """A byte-level BPE: all bytes, an end of text, and merges of pairs of frequent letters."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    pairs = [(a, b) for a in "etaoinshrdlucmfw" for b in "etaoinshrdlucmfw"]
    merges = pairs[:vocab_size - len(alphabet) - 1]
    words = [*alphabet, END_OF_TEXT, *map("".join, merges)]
    model = tokenizers.models.BPE({word: i for i, word in enumerate(words)}, merges)
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens([END_OF_TEXT])
    tokenizer.save(str(directory / "tokenizer.json"))
    make_model.write_json(directory / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END_OF_TEXT,
        "bos_token": None, "model_max_length": CONFIG["max_position_embeddings"],
        "chat_template": CHAT_TEMPLATE})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--moe", action="store_true")
    parser.add_argument("--untied", action="store_true")
    options = parser.parse_args()
    trainer = Trainer(options.seed, options.moe, not options.untied)
    print(trainer.save(options.directory / "step-0"))
    for _ in range(options.steps):
        trainer.step()
        print(trainer.save(options.directory / f"step-{trainer.step_count}"))


if __name__ == "__main__":
    main()
