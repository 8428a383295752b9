"""The vLLM double's generation routes, in the shapes of vLLM's answers."""

import time

import fake_engine
import generation
from double import Route
from http_server import Reply

SCALE_OUT = ("/inference/v1/generate", "/inference/v1/abort_requests")
MAX_SALT_CHARACTERS = 128
SALT_FORBIDS = "@/\\\0"


class Generation:
    """No OpenAI route says a version; /inference/v1/generate says spans."""

    def __init__(self, double):
        self._double = double

    def routes(self):
        common = {"model": (str,), "stream": (bool,), "max_tokens": (int,), "cache_salt": (str,),
                  "request_id": (str,)}
        return {
            "/v1/completions": Route(
                ("POST",), self._completions, loose=True, required=("prompt",),
                body={**common, "prompt": (str, list)}),
            "/v1/chat/completions": Route(
                ("POST",), self._chat, loose=True, required=("messages",),
                body={**common, "messages": (list,)}),
            "/inference/v1/generate": Route(
                ("POST",), self._generate, loose=True, required=("token_ids", "sampling_params"),
                body={**common, "token_ids": (list,), "sampling_params": (dict,)}),
            "/inference/v1/abort_requests": Route(
                ("POST",), self._abort, body={"request_ids": (list,)}, required=("request_ids",))}

    def _completions(self, call):
        request = self._admit(call, f"cmpl-{generation.new_id(call)}-0", call.arguments["prompt"],
                              call.arguments.get("max_tokens", 16))
        return self._respond(call, request, "text_completion", _completion_choice)

    def _chat(self, call):
        request = self._admit(call, f"chatcmpl-{generation.new_id(call)}",
                              call.arguments["messages"], call.arguments.get("max_tokens", 16))
        kind = "chat.completion.chunk" if call.arguments.get("stream") else "chat.completion"
        return self._respond(call, request, kind, _chat_choice)

    def _generate(self, call):
        self._require_scale_out()
        request = self._admit(
            call, f"generate-tokens-{generation.new_id(call)}", call.arguments["token_ids"],
            call.arguments["sampling_params"].get("max_tokens", 16))
        return self._respond(call, request, None, _generate_choice)

    def _require_scale_out(self):
        if not self._double.options.enable_scale_out:
            raise self._double.error(403, "started without --enable-scale-out")

    def _abort(self, call):
        self._require_scale_out()
        ids = call.arguments["request_ids"]
        self._double.engine.abort(lambda request: request.request_id in ids)
        return Reply()

    def _admit(self, call, request_id, prompt, max_tokens):
        salt = call.arguments.get("cache_salt")
        if salt is not None and (not 0 < len(salt) <= MAX_SALT_CHARACTERS
                                 or any(mark in salt for mark in SALT_FORBIDS)):
            raise self._double.violation("bad_salt", f"cache_salt {salt!r}", 400)
        if not prompt or type(max_tokens) is not int or max_tokens < 1:
            raise self._double.error(400, "prompt and max_tokens must not be empty")
        request = fake_engine.Request(request_id, generation.prompt_tokens(prompt), salt,
                                      max_tokens)
        generation.admit(self._double, request)
        return request

    def _respond(self, call, request, kind, choice):
        """One answer, or a stream of chunks; choice(call, request, places, finish) makes each."""
        head = self._head(call, request, kind)
        if call.arguments.get("stream"):
            events = self._chunks(call, request, head, choice)
            return generation.stream(self._double, call, request, events)
        generation.wait_for_end(self._double, call, request)
        places = range(len(request.tokens))
        return Reply(200, {**head, "choices": [choice(call, request, places, request.finish)],
                           "usage": _usage(request)})

    def _chunks(self, call, request, head, choice):
        for place, token, finish in generation.tokens(self._double, call, request):
            places = [place] if token else []
            yield {**head, "choices": [choice(call, request, places, finish)]}
        if call.arguments.get("stream_options", {}).get("include_usage"):
            yield {**head, "choices": [], "usage": _usage(request)}

    def _head(self, call, request, kind):
        model = call.arguments.get("model", self._double.options.served_model_name)
        if kind is None:
            return {"request_id": request.request_id.removeprefix("generate-tokens-"),
                    "model": model, "created": int(time.time()), "output_mode": "tokens"}
        answer_id = request.request_id
        if kind == "text_completion":
            answer_id = answer_id.removesuffix("-0")
        return {"id": answer_id, "object": kind, "created": int(time.time()), "model": model}


def _base_choice(request, places, finish):
    return {"index": 0, "finish_reason": finish, "stop_reason": None,
            "_double": generation.proof([request.tokens[place] for place in places])}


def _text(request, places):
    return "".join(generation.text(request.tokens[place]) for place in places)


def _ids(request, places):
    return [generation.token_id(request.tokens[place], place) for place in places]


def _completion_choice(call, request, places, finish):
    choice = {**_base_choice(request, places, finish), "text": _text(request, places),
              "logprobs": None}
    if call.arguments.get("logprobs") is not None:
        names = [generation.text(request.tokens[place]) for place in places]
        values = [generation.logprob(request.tokens[place], place) for place in places]
        choice["logprobs"] = {
            "text_offset": [place * len(name) for place, name in zip(places, names)],
            "tokens": names, "token_logprobs": values,
            "top_logprobs": [{name: value} for name, value in zip(names, values)]}
    if call.arguments.get("return_token_ids"):
        choice["token_ids"] = _ids(request, places)
    return choice


def _chat_choice(call, request, places, finish):
    content = {"role": "assistant", "content": _text(request, places)}
    choice = {**_base_choice(request, places, finish), "logprobs": None,
              "delta" if call.arguments.get("stream") else "message": content}
    if call.arguments.get("logprobs"):
        choice["logprobs"] = {"content": [
            {"token": generation.text(request.tokens[place]), "top_logprobs": [],
             "logprob": generation.logprob(request.tokens[place], place)} for place in places]}
    if call.arguments.get("return_token_ids"):
        choice["token_ids"] = _ids(request, places)
    return choice


def _generate_choice(call, request, places, finish):
    content = [{"token_id": generation.token_id(request.tokens[place], place), "rank": 1,
                "logprob": generation.logprob(request.tokens[place], place), "top_logprobs": []}
               for place in places]
    wanted = call.arguments["sampling_params"].get("logprobs") is not None
    choice = {**_base_choice(request, places, finish), "token_ids": _ids(request, places),
              "logprobs": {"content": content} if wanted else None}
    if finish:
        choice["weight_versions"] = request.versions()
    return choice


def _usage(request):
    prompt, output = len(request.prompt), len(request.tokens)
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": request.cached_tokens}}
