#!/usr/bin/env python3
"""The reference engine computes what a plain second implementation does, always to the last bit."""

import json
import pathlib
import unittest

import numpy as np

import harness
import make_model
from plain_model import PlainModel

PROMPT = [7, 300, 12, 12, 99, 5, 311, 42]
SMALL = {**make_model.CONFIG, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 320}
LLAMA3_ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
TOLERANCE = 1e-4  # float32 against float64 over two layers


def write_variant(directory, config, dtype, biases=(), q_k_norm=True):
    """A random checkpoint of `config` in one of three dtypes, in a single file without an index."""
    random = np.random.Generator(np.random.PCG64(3))
    shapes = {name: shape for name, shape in make_model.tensor_shapes(config).items()
              if q_k_norm or not name.endswith(("q_norm.weight", "k_norm.weight"))}
    for layer in range(config["num_hidden_layers"]):
        for name in biases:
            weight = shapes[f"model.layers.{layer}.{name}.weight"]
            shapes[f"model.layers.{layer}.{name}.bias"] = weight[:1]
    encode = {"BF16": make_model.to_bf16, "F16": lambda values: values.astype("<f2").tobytes(),
              "F32": lambda values: values.astype("<f4").tobytes()}[dtype]
    directory.mkdir()
    make_model.write_shard(directory / "model.safetensors", {
        name: (dtype, shape, encode(make_model.random_values(shape, random)))
        for name, shape in shapes.items()})
    (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return directory


class RefengineModelTest(harness.ServerTest):

    def assert_computes_right(self, directory):
        server = self.start_refengine(directory)
        status, answer = server.post("/v1/completions", {
            "prompt": PROMPT, "max_tokens": 6, "temperature": 1.0, "seed": 5, "logprobs": 4,
            "return_token_ids": True, "return_tokens_as_token_ids": True, "ignore_eos": True})
        self.assertEqual(status, 200, answer)
        choice = answer["choices"][0]
        expected = PlainModel(pathlib.Path(directory)).logprobs(PROMPT + choice["token_ids"])
        self.assertEqual(len(choice["token_ids"]), 6)
        for step, token_id in enumerate(choice["token_ids"]):
            row = expected[len(PROMPT) - 1 + step]
            self.assertAlmostEqual(choice["logprobs"]["token_logprobs"][step], row[token_id],
                                   delta=TOLERANCE)
            best = sorted(row, reverse=True)[:4]
            for name, logprob in choice["logprobs"]["top_logprobs"][step].items():
                self.assertAlmostEqual(logprob, row[int(name.split(":")[1])], delta=TOLERANCE)
            found = sorted(choice["logprobs"]["top_logprobs"][step].values(), reverse=True)[:4]
            np.testing.assert_allclose(found, best, atol=TOLERANCE)

    def test_qwen3_with_tied_embeddings_and_two_shards(self):
        self.assert_computes_right(self.make_model("qwen3", 1, SMALL))

    def test_qwen2_with_biases_and_an_own_head(self):
        config = {**SMALL, "model_type": "qwen2", "tie_word_embeddings": False}
        for key in ("head_dim", "max_position_embeddings"):  # the defaults are meant
            del config[key]
        config["hidden_size"] = 32
        shaped = {**config, "head_dim": 8}
        biases = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
        directory = write_variant(self.dir / "qwen2", shaped, "F32", biases, q_k_norm=False)
        (directory / "config.json").write_text(json.dumps(config), encoding="utf-8")
        self.assert_computes_right(directory)

    def test_llama_with_scaled_rotary_embedding_and_without_grouping(self):
        config = {**SMALL, "model_type": "llama", "rope_theta": 500.0, "rope_scaling": LLAMA3_ROPE,
                  "num_key_value_heads": 4, "tie_word_embeddings": False}
        self.assert_computes_right(write_variant(self.dir / "llama", config, "F16", q_k_norm=False))

    def test_the_same_question_gives_the_same_bits_in_any_process_and_beside_any_load(self):
        directory = self.make_model("model", 1)
        question = {"prompt": list(range(100)), "max_tokens": 40, "temperature": 0.8, "seed": 11,
                    "logprobs": 3, "cache_salt": "a"}
        first, second = self.start_refengine(directory), self.start_refengine(directory)
        alone = first.post("/v1/completions", question)[1]["choices"]
        self.assertEqual(first.post("/v1/completions", question)[1]["choices"], alone)
        others = [harness.Background(second.post, "/v1/completions", {
            "prompt": [n, 1, 2], "max_tokens": 60, "seed": n}) for n in range(4)]
        self.assertEqual(second.post("/v1/completions", question)[1]["choices"], alone)
        for other in others:
            self.assertEqual(other.result()[0], 200)

    def test_another_seed_gives_another_output_and_temperature_zero_needs_none(self):
        server = self.start_refengine(self.make_model("model", 1))
        def text(**options):
            return server.post("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 20,
                                                   **options})[1]["choices"][0]["text"]
        self.assertNotEqual(text(seed=1), text(seed=2))
        self.assertEqual(text(temperature=0), text(temperature=0))


if __name__ == "__main__":
    unittest.main()
