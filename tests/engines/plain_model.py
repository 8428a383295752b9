"""Log-probabilities of a decoder, computed as plainly as can be: the check on the fast one.

Python floats, lists and loops; all positions of a sequence layer by layer, no cache, no numpy,
rotary embedding by complex numbers. It shares no code with what it checks.
"""

import cmath
import json
import math
import struct


class PlainModel:
    def __init__(self, directory):
        self.config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        self.tensors = {}
        for path in directory.glob("*.safetensors"):
            self.tensors.update(read_tensors(path.read_bytes()))
        self.heads = self.config["num_attention_heads"]
        self.kv_heads = self.config["num_key_value_heads"]
        self.head_dim = self.config.get("head_dim", self.config["hidden_size"] // self.heads)

    def logprobs(self, tokens):
        """For each position, the log-probability of every token that may follow."""
        embedding = self.tensors["model.embed_tokens.weight"]
        states = [list(embedding[token]) for token in tokens]
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"model.layers.{layer}."
            normed = self.norm(prefix + "input_layernorm", states)
            states = add(states, self.attention(prefix + "self_attn.", normed))
            normed = self.norm(prefix + "post_attention_layernorm", states)
            states = add(states, self.mlp(prefix + "mlp.", normed))
        head = embedding if self.config["tie_word_embeddings"] else self.tensors["lm_head.weight"]
        return [log_softmax([dot(row, state) for row in head])
                for state in self.norm("model.norm", states)]

    def norm(self, name, states):
        weight = self.tensors.get(name + ".weight")
        if weight is None:
            return states
        epsilon = self.config["rms_norm_eps"]
        scales = [1 / math.sqrt(dot(state, state) / len(state) + epsilon) for state in states]
        return [[w * x * scale for w, x in zip(weight, state)]
                for state, scale in zip(states, scales)]

    def linear(self, name, states):
        bias = self.tensors.get(name + ".bias")
        products = [[dot(row, state) for row in self.tensors[name + ".weight"]] for state in states]
        return products if bias is None else [add_one(product, bias) for product in products]

    def attention(self, prefix, states):
        mixed = [[] for _ in states]
        queries = self.split(prefix + "q", states, self.heads)
        keys = self.split(prefix + "k", states, self.kv_heads)
        values = self.split(prefix + "v", states, self.kv_heads)
        for head in range(self.heads):
            shared = head // (self.heads // self.kv_heads)
            for position, query in enumerate(queries[head]):
                seen = range(position + 1)
                scores = [dot(query, keys[shared][p]) / math.sqrt(self.head_dim) for p in seen]
                weights = [math.exp(x) for x in log_softmax(scores)]
                mixed[position] += [sum(weights[p] * values[shared][p][c] for p in seen)
                                    for c in range(self.head_dim)]
        return self.linear(prefix + "o_proj", mixed)

    def split(self, prefix, states, heads):
        """[head][position][channel]; queries and keys normed and turned."""
        projected = self.linear(prefix + "_proj", states)
        result = []
        for head in range(heads):
            begin = head * self.head_dim
            part = [row[begin:begin + self.head_dim] for row in projected]
            if prefix[-1] != "v":
                part = self.norm(prefix + "_norm", part)
                part = [self.turn(row, position) for position, row in enumerate(part)]
            result.append(part)
        return result

    def turn(self, row, position):
        half = self.head_dim // 2
        turned = [complex(row[i], row[i + half]) * cmath.exp(1j * position * self.frequency(i))
                  for i in range(half)]
        return [z.real for z in turned] + [z.imag for z in turned]

    def frequency(self, pair):
        plain = self.config["rope_theta"] ** (-2 * pair / self.head_dim)
        scaling = self.config.get("rope_scaling")
        if not scaling:
            return plain
        wavelength = 2 * math.pi / plain
        length = scaling["original_max_position_embeddings"]
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        if wavelength > length / low:
            return plain / scaling["factor"]
        if wavelength < length / high:
            return plain
        smooth = (length / wavelength - low) / (high - low)
        return (1 - smooth) * plain / scaling["factor"] + smooth * plain

    def mlp(self, prefix, states):
        gates, ups = (self.linear(prefix + name, states) for name in ("gate_proj", "up_proj"))
        inner = [[g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
                 for gate, up in zip(gates, ups)]
        return self.linear(prefix + "down_proj", inner)


def dot(left, right):
    return sum(x * y for x, y in zip(left, right))


def add_one(left, right):
    return [x + y for x, y in zip(left, right)]


def add(left, right):
    return [add_one(x, y) for x, y in zip(left, right)]


def log_softmax(values):
    largest = max(values)
    total = math.log(sum(math.exp(value - largest) for value in values))
    return [value - largest - total for value in values]


def read_tensors(data):
    """{name: nested lists of floats} of one safetensors file."""
    end = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:end]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            flat = read_floats(data[end + first:end + last], entry["dtype"])
            rows, columns = (entry["shape"] + [1])[:2]
            tensors[name] = flat if len(entry["shape"]) == 1 else [
                flat[row * columns:(row + 1) * columns] for row in range(rows)]
    return tensors


def read_floats(raw, dtype):
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, len(raw), 2)]
    code = {"F16": "e", "F32": "f"}[dtype]
    return list(struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw))
