"""The SGLang double's generation routes, in the shapes of SGLang's answers."""

import time

import fake_engine
import generation
from double import Route
from http_server import Reply


class Generation:
    """/generate and the non-streamed OpenAI answers say which version made which token."""

    def __init__(self, double):
        self._double = double

    def routes(self):
        common = {"stream": (bool,), "rid": (str,), "extra_key": (str,), "cache_salt": (str,)}
        return {
            "/generate": Route(("POST",), self._generate, loose=True, body={
                **common, "text": (str, list), "input_ids": (list,), "sampling_params": (dict,)}),
            "/v1/completions": Route(
                ("POST",), self._completions, loose=True, required=("prompt",),
                body={**common, "prompt": (str, list), "max_tokens": (int,)}),
            "/v1/chat/completions": Route(
                ("POST",), self._chat, loose=True, required=("messages",),
                body={**common, "messages": (list,), "max_tokens": (int,)})}

    def _request(self, call, prompt, max_tokens, rid=None):
        wanted = call.arguments
        if not prompt or type(max_tokens) is not int or max_tokens < 1:
            raise self._double.error(400, "the prompt is empty or no token asked for", True)
        namespace = (wanted.get("cache_salt"), wanted.get("extra_key"))
        return fake_engine.Request(rid or generation.new_id(call, "rid"),
                                   generation.prompt_tokens(prompt), namespace, max_tokens)

    # /generate

    def _generate(self, call):
        wanted = call.arguments
        prompts = wanted.get("text", wanted.get("input_ids"))
        if not prompts:
            raise self._double.error(400, "Either text or input_ids should be provided.", True)
        limit = wanted.get("sampling_params", {}).get("max_new_tokens", 128)
        if isinstance(prompts, list) and isinstance(prompts[0], (str, list)):
            return self._generate_batch(call, prompts, limit)
        request = self._request(call, prompts, limit)
        generation.admit(self._double, request)
        if wanted.get("stream"):
            return generation.stream(self._double, call, request, self._chunks(call, request))
        generation.wait_for_end(self._double, call, request)
        return Reply(200, self._output(call, request, 0, len(request.tokens)))

    def _generate_batch(self, call, prompts, limit):
        if call.arguments.get("stream"):
            raise self._double.error(400, "a batch is not streamed", True)
        rid = generation.new_id(call, "rid")
        requests = [self._request(call, prompt, limit, f"{rid}_{place}")
                    for place, prompt in enumerate(prompts)]
        for request in requests:
            generation.admit(self._double, request)
        for request in requests:
            generation.wait_for_end(self._double, call, request)
        return Reply(200, [self._output(call, request, 0, len(request.tokens))
                           for request in requests])

    def _chunks(self, call, request):
        for place, token, _ in generation.tokens(self._double, call, request):
            end = place + 1 if token else place
            incremental = self._double.options.incremental_streaming_output
            yield self._output(call, request, place if incremental else 0, end)

    def _output(self, call, request, begin, end):
        """Tokens [begin, end); a final one if the request has ended with them."""
        places = range(begin, end)
        ids = [generation.token_id(request.tokens[place], place) for place in places]
        text = "".join(generation.text(request.tokens[place]) for place in places)
        is_last = request.finish is not None and end == len(request.tokens)
        meta = self._meta_info(request, end, is_last)
        if call.arguments.get("return_logprob"):
            meta["output_token_logprobs"] = [
                [generation.logprob(request.tokens[place], place), token_id, None]
                for place, token_id in zip(places, ids)]
        return {"text": text, "output_ids": ids, "meta_info": meta,
                "_double": generation.proof([request.tokens[place] for place in places])}

    def _meta_info(self, request, end, is_last):
        meta = {"id": request.request_id, "finish_reason": None,
                "prompt_tokens": len(request.prompt), "completion_tokens": end,
                "cached_tokens": request.cached_tokens, "num_retractions": request.retractions,
                "weight_version": self._double.weights.told_version, "e2e_latency": 0.0}
        if is_last:
            meta["finish_reason"] = self._finish_reason(request)
            meta["weight_versions"] = request.versions()
            if request.tokens:
                meta["weight_version"] = request.tokens[-1].version
        return meta

    @staticmethod
    def _finish_reason(request):
        if request.finish == "abort":
            return {"type": "abort", "message": "Aborted"}
        return {"type": "length", "length": request.max_tokens}

    # OpenAI

    def _completions(self, call):
        return self._respond(call, call.arguments["prompt"], _completion_choice, "text_completion")

    def _chat(self, call):
        kind = "chat.completion.chunk" if call.arguments.get("stream") else "chat.completion"
        return self._respond(call, call.arguments["messages"], _chat_choice, kind)

    def _respond(self, call, prompt, choice, kind):
        request = self._request(call, prompt, call.arguments.get("max_tokens", 16))
        generation.admit(self._double, request)
        head = {"id": request.request_id, "object": kind, "created": int(time.time()),
                "model": call.arguments.get("model", self._double.served_model_name)}
        if call.arguments.get("stream"):
            events = self._openai_chunks(call, request, head, choice)
            return generation.stream(self._double, call, request, events)
        generation.wait_for_end(self._double, call, request)
        spans = request.versions()
        version = spans[-1]["version"] if spans else self._double.weights.told_version
        places = range(len(request.tokens))
        return Reply(200, {**head, "choices": [choice(call, request, places, request.finish)],
                           "usage": _usage(request),
                           "metadata": {"weight_version": version, "weight_versions": spans}})

    def _openai_chunks(self, call, request, head, choice):
        for place, token, finish in generation.tokens(self._double, call, request):
            places = [place] if token else []
            yield {**head, "choices": [choice(call, request, places, finish)]}


def _base_choice(request, places, finish):
    tokens = [request.tokens[place] for place in places]
    return {"index": 0, "finish_reason": finish, "matched_stop": None, "logprobs": None,
            "_double": generation.proof(tokens)}


def _completion_choice(_, request, places, finish):
    text = "".join(generation.text(request.tokens[place]) for place in places)
    return {**_base_choice(request, places, finish), "text": text}


def _chat_choice(call, request, places, finish):
    text = "".join(generation.text(request.tokens[place]) for place in places)
    key = "delta" if call.arguments.get("stream") else "message"
    return {**_base_choice(request, places, finish), key: {"role": "assistant", "content": text}}


def _usage(request):
    prompt, output = len(request.prompt), len(request.tokens)
    return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": request.cached_tokens}}
