"""Llama, Qwen2 and Qwen3 decoders in float32, one position at a time.

Every position goes through the same matrix-vector products, whether it belongs to a prompt, to the
output or to a repeated prefill. So logits depend on weights and tokens alone, to the last bit, not
on how the work was cut.
"""

import dataclasses
import math

import numpy as np

import checkpoint

# What the transformers library assumes where config.json is silent.
DEFAULTS = {"llama": {"max_positions": 2048}, "qwen2": {"max_positions": 32768},
            "qwen3": {"max_positions": 32768, "head_dim": 128}}
IGNORED_SUFFIX = "rotary_emb.inv_freq"  # old Llama checkpoints carry this table


@dataclasses.dataclass(frozen=True)
class Config:
    vocab_size: int
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    max_positions: int
    norm_eps: float
    rope_theta: float
    rope_scaling: tuple  # sorted (key, value) pairs; empty for plain RoPE
    tied_embeddings: bool
    eos_token_ids: tuple

    @classmethod
    def from_json(cls, config):
        """Of a config.json; CheckpointError for a model that would be computed wrongly."""
        try:
            _refuse_unknown(config)
            return cls._from_checked(config)
        except (KeyError, TypeError) as error:
            raise checkpoint.CheckpointError(f"config.json is incomplete: {error}") from error

    @classmethod
    def _from_checked(cls, config):
        heads = config["num_attention_heads"]
        defaults = DEFAULTS[config["model_type"]]
        eos = config.get("eos_token_id")
        return cls(
            vocab_size=config["vocab_size"], hidden_size=config["hidden_size"],
            layers=config["num_hidden_layers"], heads=heads,
            kv_heads=config.get("num_key_value_heads") or heads,
            head_dim=config.get("head_dim") or defaults.get(
                "head_dim", config["hidden_size"] // heads),
            intermediate_size=config["intermediate_size"],
            max_positions=config.get("max_position_embeddings", defaults["max_positions"]),
            norm_eps=config.get("rms_norm_eps", 1e-6),
            rope_theta=float(_rope(config)["rope_theta"]),
            rope_scaling=_rope_scaling(config),
            tied_embeddings=bool(config.get("tie_word_embeddings", False)),
            eos_token_ids=tuple(eos if isinstance(eos, list) else [] if eos is None else [eos]))


def _rope(config):
    """RoPE settings: newer files gather them in rope_parameters."""
    return {"rope_theta": config.get("rope_theta", 10000.0),
            **(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}


def _rope_type(config):
    rope = _rope(config)
    return rope.get("rope_type", rope.get("type", "default"))


def _rope_scaling(config):
    if _rope_type(config) == "default":
        return ()
    keys = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    return tuple((key, _rope(config)[key]) for key in keys)


def _refuse_unknown(config):
    checks = (("model_type", config.get("model_type"), tuple(DEFAULTS)),
              ("hidden_act", config.get("hidden_act", "silu"), ("silu",)),
              ("rope type", _rope_type(config), ("default", "llama3")),
              ("use_sliding_window", bool(config.get("use_sliding_window")), (False,)))
    for name, found, allowed in checks:
        if found not in allowed:
            raise checkpoint.CheckpointError(
                f"config.json: {name} is {found!r}; allowed: {', '.join(map(str, allowed))}")


def inverse_frequencies(config):
    """float64 (head_dim / 2): angle per position of each pair of channels."""
    frequency = config.rope_theta ** (-np.arange(0, config.head_dim, 2) / config.head_dim)
    if not config.rope_scaling:
        return frequency
    scaling = dict(config.rope_scaling)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling["original_max_position_embeddings"] * frequency / (2 * math.pi)
    keep = np.clip((turns - low) / (high - low), 0, 1)  # 1: fast channels stay as they are
    return frequency * (keep + (1 - keep) / scaling["factor"])


def expected_shapes(config):
    """({name: shape} of what must be there, the same of what may be: biases, q/k norms)"""
    hidden, inner = config.hidden_size, config.intermediate_size
    q_size, kv_size = config.heads * config.head_dim, config.kv_heads * config.head_dim
    vocab = (config.vocab_size, hidden)
    required = {"model.embed_tokens.weight": vocab, "model.norm.weight": (hidden,)}
    optional = {"lm_head.weight": vocab} if config.tied_embeddings else {}
    if not config.tied_embeddings:
        required["lm_head.weight"] = vocab
    linear = {"self_attn.q_proj": (q_size, hidden), "self_attn.k_proj": (kv_size, hidden),
              "self_attn.v_proj": (kv_size, hidden), "self_attn.o_proj": (hidden, q_size),
              "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden),
              "mlp.down_proj": (hidden, inner)}
    for layer in range(config.layers):
        prefix = f"model.layers.{layer}."
        for name in ("input_layernorm", "post_attention_layernorm"):
            required[f"{prefix}{name}.weight"] = (hidden,)
        for name in ("self_attn.q_norm", "self_attn.k_norm"):
            optional[f"{prefix}{name}.weight"] = (config.head_dim,)
        for name, shape in linear.items():
            required[f"{prefix}{name}.weight"] = shape
            optional[f"{prefix}{name}.bias"] = shape[:1]
    return required, optional


def load(directory, config=None):
    """The model in a directory; with `config`, one of exactly that shape (a reload)."""
    found = Config.from_json(checkpoint.read_config(directory))
    if config is not None and found != config:
        raise checkpoint.CheckpointError(f"{directory} holds another model: {found}")
    required, optional = expected_shapes(found)
    tensors = {}
    for name, values in checkpoint.read_tensors(directory):
        if name.endswith(IGNORED_SUFFIX):
            continue
        shape = required.get(name) or optional.get(name)
        if values.shape != shape:
            raise checkpoint.CheckpointError(
                f"{directory}: tensor {name} has shape {values.shape}, "
                f"expected {shape or 'no such tensor'}")
        tensors[name] = values
    absent = sorted(required.keys() - tensors.keys())
    if absent:
        raise checkpoint.CheckpointError(f"{directory} lacks {', '.join(absent[:3])}")
    return Model(found, tensors)


class Model:
    """Immutable weights: `tensors` maps checkpoint names to float32 arrays."""

    def __init__(self, config, tensors):
        self.config = config
        self._tensors = tensors
        self._head = tensors["model.embed_tokens.weight" if config.tied_embeddings
                             else "lm_head.weight"]
        self._frequency = inverse_frequencies(config)

    def step(self, token_id, cache, want_logits=True):
        """Appends one position to `cache`; returns its float32 logits (vocab), or None."""
        position = cache.begin_position()
        angle = position * self._frequency
        rotation = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        hidden = self._tensors["model.embed_tokens.weight"][token_id]
        for layer in range(self.config.layers):
            hidden = self._layer(layer, hidden, rotation, cache)
        cache.end_position()
        return self._head @ self._norm("model.norm", hidden) if want_logits else None

    def _layer(self, layer, hidden, rotation, cache):
        prefix = f"model.layers.{layer}."
        normed = self._norm(prefix + "input_layernorm", hidden)
        hidden = hidden + self._attention(layer, prefix + "self_attn.", normed, rotation, cache)
        normed = self._norm(prefix + "post_attention_layernorm", hidden)
        gate = self._linear(prefix + "mlp.gate_proj", normed)
        inner = gate / (1 + np.exp(-gate)) * self._linear(prefix + "mlp.up_proj", normed)
        return hidden + self._linear(prefix + "mlp.down_proj", inner)

    def _attention(self, layer, prefix, normed, rotation, cache):
        """Grouped-query attention of one position over all that the cache holds."""
        shape = self.config
        query = self._linear(prefix + "q_proj", normed).reshape(shape.heads, shape.head_dim)
        key = self._linear(prefix + "k_proj", normed).reshape(shape.kv_heads, shape.head_dim)
        value = self._linear(prefix + "v_proj", normed).reshape(shape.kv_heads, shape.head_dim)
        query = rotate(self._norm(prefix + "q_norm", query), rotation)
        key = rotate(self._norm(prefix + "k_norm", key), rotation)
        keys, values = cache.append(layer, key, value)
        grouped = query.reshape(shape.kv_heads, -1, shape.head_dim)
        scores = grouped @ keys.transpose(0, 2, 1) / np.float32(math.sqrt(shape.head_dim))
        mixed = softmax(scores) @ values
        return self._linear(prefix + "o_proj", mixed.reshape(-1))

    def _linear(self, name, vector):
        product = self._tensors[name + ".weight"] @ vector
        bias = self._tensors.get(name + ".bias")
        return product if bias is None else product + bias

    def _norm(self, name, vector):
        """RMSNorm over the last axis; the identity where the checkpoint has no such weight."""
        weight = self._tensors.get(name + ".weight")
        if weight is None:
            return vector
        mean_square = np.mean(vector * vector, axis=-1, keepdims=True)
        return weight * (vector / np.sqrt(mean_square + np.float32(self.config.norm_eps)))


def rotate(heads, rotation):
    """RoPE on (heads, head_dim): channel i turns with channel i + head_dim / 2."""
    cosine, sine = rotation
    first, second = np.split(heads, 2, axis=-1)
    return np.concatenate((first * cosine - second * sine, second * cosine + first * sine), axis=-1)


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
