"""The body of POST /v1/completions: what is taken, what is refused, and why."""

import dataclasses
import json
import secrets

import http_server
import tokenizer

MAX_SALT_CHARACTERS = 128  # this and the characters are vLLM's rules
SALT_FORBIDS = "@/\\\0"
MAX_LOGPROBS = 20  # vLLM's default of --max-logprobs
# Fields that would change the result if they were ignored, with the values that change nothing.
UNSUPPORTED = {"n": (1,), "best_of": (1,), "top_p": (1,), "top_k": (0, -1), "min_p": (0,),
               "presence_penalty": (0,), "frequency_penalty": (0,), "repetition_penalty": (1,),
               "logit_bias": ({},), "echo": (False,), "suffix": ("",), "min_tokens": (0,),
               "prompt_logprobs": (), "logprob_token_ids": (), "use_beam_search": (False,)}


class BadRequest(http_server.HttpError):
    """400 in vLLM's shape."""

    def __init__(self, message, param=None):
        super().__init__(400, {"error": {"message": message, "type": "Bad Request", "param": param,
                                         "code": 400}})


@dataclasses.dataclass(frozen=True)
class CompletionRequest:
    request_id: str
    model: str
    prompt: tuple  # token ids, at least one
    max_tokens: int
    temperature: float
    seed: int
    logprobs: int  # alternatives per token; -1: no logprobs at all
    stop: tuple  # strings
    stop_token_ids: tuple
    ignore_eos: bool
    stream: bool
    include_usage: bool
    return_token_ids: bool
    tokens_as_ids: bool
    cache_salt: str


def object_body(call):
    """The body as a dict; BadRequest if it is anything else."""
    try:
        body = json.loads(call.body)
    except ValueError as error:
        raise BadRequest(f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object", "body")
    return body


def field(body, name, kinds, default):
    """A field of one of `kinds` (a tuple of types), `default` where it is absent or null."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, kinds) or isinstance(value, bool) and bool not in kinds:
        raise BadRequest(f"{name} must be {' or '.join(kind.__name__ for kind in kinds)}, "
                         f"not {value!r}", f"body.{name}")
    return value


def parse(call, config, served_name):
    """A CompletionRequest within the limits of the model's `config`; BadRequest otherwise."""
    body = object_body(call)
    _refuse_unsupported(body)
    prompt = _prompt(body, config)
    max_tokens = field(body, "max_tokens", (int,), 16)
    if not 1 <= max_tokens <= config.max_positions - len(prompt):
        raise BadRequest(f"max_tokens is {max_tokens} after {len(prompt)} prompt tokens; the model "
                         f"holds {config.max_positions} positions", "body.max_tokens")
    request_id = call.headers.get("X-Request-Id") or field(body, "request_id", (str,), None)
    options = field(body, "stream_options", (dict,), {})
    return CompletionRequest(
        request_id=f"cmpl-{request_id or secrets.token_hex(16)}",
        model=_model(body, served_name), prompt=prompt, max_tokens=max_tokens,
        temperature=_temperature(body), seed=_seed(body), logprobs=_logprobs(body),
        stop=_stop(body), stop_token_ids=_stop_token_ids(body),
        ignore_eos=field(body, "ignore_eos", (bool,), False),
        stream=field(body, "stream", (bool,), False),
        include_usage=bool(options.get("include_usage")),
        return_token_ids=field(body, "return_token_ids", (bool,), False),
        tokens_as_ids=field(body, "return_tokens_as_token_ids", (bool,), False),
        cache_salt=cache_salt(body))


def _refuse_unsupported(body):
    for name, neutral in UNSUPPORTED.items():
        value = body.get(name)
        if value is not None and value not in neutral:
            raise BadRequest(f"{name}={value!r} is not supported by this engine", f"body.{name}")


def _prompt(body, config):
    prompt = field(body, "prompt", (str, list), None)
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    tokens = tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
    if not tokens or not all(type(token) is int for token in tokens):
        raise BadRequest("prompt must be one text or one list of token ids, not empty",
                         "body.prompt")
    if not all(0 <= token < config.vocab_size for token in tokens):
        raise BadRequest(f"prompt holds a token id outside [0, {config.vocab_size})", "body.prompt")
    return tuple(tokens)


def _model(body, served_name):
    model = field(body, "model", (str,), served_name)
    if model != served_name:
        raise http_server.HttpError(404, {"error": {
            "message": f"The model `{model}` does not exist.", "type": "NotFoundError",
            "param": "model", "code": 404}})
    return model


def _temperature(body):
    temperature = float(field(body, "temperature", (int, float), 1.0))
    if not 0 <= temperature < float("inf"):
        raise BadRequest(f"temperature must be at least 0, not {temperature}", "body.temperature")
    return temperature


def _seed(body):
    seed = field(body, "seed", (int,), None)
    return secrets.randbits(63) if seed is None else seed & (1 << 64) - 1


def _logprobs(body):
    count = field(body, "logprobs", (int,), -1)
    if not -1 <= count <= MAX_LOGPROBS:
        raise BadRequest(f"logprobs must be 0 to {MAX_LOGPROBS}, not {count}", "body.logprobs")
    return count


def _stop(body):
    stop = field(body, "stop", (str, list), ())
    stop = (stop,) if isinstance(stop, str) else tuple(stop)
    if not all(isinstance(text, str) and text for text in stop):
        raise BadRequest("stop must be a text or texts, none empty", "body.stop")
    return stop


def _stop_token_ids(body):
    ids = field(body, "stop_token_ids", (list,), ())
    if not all(type(token) is int for token in ids):
        raise BadRequest("stop_token_ids must be token ids", "body.stop_token_ids")
    return tuple(ids)


def cache_salt(body):
    """The salt or None; BadRequest where vLLM refuses it."""
    salt = field(body, "cache_salt", (str,), None)
    if salt is not None and (not 0 < len(salt) <= MAX_SALT_CHARACTERS
                             or any(mark in salt for mark in SALT_FORBIDS)):
        raise BadRequest(f"cache_salt must have 1 to {MAX_SALT_CHARACTERS} characters and none "
                         "of @ / \\ NUL", "body.cache_salt")
    return salt
