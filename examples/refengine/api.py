"""The routes: generation, health, and the control routes of vLLM in its development mode."""

import platform

import checkpoint
import completion_request
import completions
import http_server

VERSION = "0.1.0"
PAUSE_MODES = ("abort", "wait", "keep")


class Api:
    """Pure handlers over one engine; `handle` is what the HTTP server calls, from many threads."""

    def __init__(self, engine, served_name):
        self._engine = engine
        self._served_name = served_name
        self._routes = http_server.Routes()
        for method, path, handler in (
                ("POST", "/v1/completions", completions.Completions(engine, served_name).handle),
                ("GET", "/v1/models", self._models),
                ("GET", "/health", lambda call: http_server.Reply()),
                ("GET", "/version", lambda call: http_server.Reply(200, {"version": VERSION})),
                ("GET", "/openapi.json", self._openapi),
                ("GET", "/server_info", self._server_info),
                ("GET", "/load", self._load),
                ("POST", "/pause", self._pause),
                ("POST", "/resume", self._resume),
                ("GET", "/is_paused", self._is_paused),
                ("GET", "/is_sleeping", self._is_sleeping),
                ("POST", "/abort_requests", self._abort_requests),
                ("POST", "/reset_prefix_cache", self._reset_prefix_cache),
                ("POST", "/reset_mm_cache", lambda call: http_server.Reply()),
                ("POST", "/reset_encoder_cache", lambda call: http_server.Reply()),
                ("POST", "/collective_rpc", self._collective_rpc),
                ("POST", "/update_weight_version", self._update_weight_version),
                ("GET", "/weight_info", self._weight_info),
                ("GET", "/get_world_size", lambda call: http_server.Reply(200, {"world_size": 1}))):
            self._routes.add(method, path, handler)

    def handle(self, call):
        handler = self._routes.find(call)
        if handler is None:
            return self._unknown(call)
        try:
            return handler(call)
        except (http_server.HttpError, http_server.ConnectionAborted):
            raise
        except ValueError as error:  # a query parameter
            return completion_request.BadRequest(str(error)).reply
        except Exception as error:  # the engine's; it goes on
            return http_server.Reply(500, {"error": str(error)})

    def _unknown(self, call):
        wrong_method = self._routes.methods(call.path)
        status, text = (405, "Method Not Allowed") if wrong_method else (404, "Not Found")
        return http_server.Reply(status, {"error": {
            "message": text, "type": text.replace(" ", ""), "param": None, "code": status}})

    def _models(self, _):
        entry = {"id": self._served_name, "object": "model", "owned_by": "refengine",
                 "max_model_len": self._engine.config.max_positions}
        return http_server.Reply(200, {"object": "list", "data": [entry]})

    def _openapi(self, _):
        return http_server.Reply(200, self._routes.openapi("refengine", VERSION))

    def _server_info(self, _):
        return http_server.Reply(200, {
            "vllm_config": {"model": str(self._engine.directory), "dtype": "float32"},
            "vllm_env": {}, "system_env": {"python": platform.python_version()}})

    def _load(self, _):
        running, waiting = self._engine.counts()
        return http_server.Reply(200, {"server_load": running + waiting})

    def _pause(self, call):
        mode = call.query.get("mode", "abort")
        if mode not in PAUSE_MODES:
            raise completion_request.BadRequest(
                f"mode must be one of {', '.join(PAUSE_MODES)}, not {mode!r}", "query.mode")
        try:
            self._engine.pause(mode, call.flag("clear_cache", True))
        except RuntimeError as error:
            return http_server.Reply(500, {"error": f"Failed to pause generation: {error}"})
        return http_server.Reply(200, {"status": "paused"})

    def _resume(self, _):
        self._engine.resume()
        return http_server.Reply(200, {"status": "resumed"})

    def _is_paused(self, _):
        return http_server.Reply(200, {"is_paused": self._engine.pause_mode is not None})

    def _is_sleeping(self, _):
        return http_server.Reply(200, {"is_sleeping": self._engine.pause_mode is not None})

    def _abort_requests(self, call):
        """Ids are those of answers followed by the index of the choice: cmpl-ID-0."""
        body = completion_request.object_body(call)
        ids = completion_request.field(body, "request_ids", (list,), None)
        if ids is None:
            aborted = self._engine.abort(lambda sequence: True)
        else:
            self._engine.abort(lambda sequence: f"{sequence.request.request_id}-0" in ids)
            aborted = len(ids)
        return http_server.Reply(200, {"status": "aborted", "aborted": aborted})

    def _reset_prefix_cache(self, call):
        call.flag("reset_external", False)
        done = self._engine.reset_prefix_cache(call.flag("reset_running_requests", False))
        return http_server.Reply(200, {"success": done})

    def _collective_rpc(self, call):
        body = completion_request.object_body(call)
        method = completion_request.field(body, "method", (str,), None)
        if method is None:
            raise completion_request.BadRequest("Field required", "body.method")
        arguments = completion_request.field(body, "kwargs", (dict,), {})
        if completion_request.field(body, "args", (list,), []):
            return _rpc_failed("this engine takes keyword arguments only")
        if method == "check_health" and not arguments:
            return http_server.Reply(200, {"results": [None]})
        if method != "reload_weights" or not arguments.keys() <= {"weights_path"}:
            return _rpc_failed(f"no method {method} with arguments {sorted(arguments)}")
        return self._reload(arguments.get("weights_path"))

    def _reload(self, directory):
        try:
            self._engine.reload(directory)
        except (checkpoint.CheckpointError, TypeError) as error:
            return _rpc_failed(str(error))
        return http_server.Reply(200, {"results": [None]})

    def _update_weight_version(self, call):
        body = completion_request.object_body(call)
        version = completion_request.field(body, "new_version", (str,), None)
        if version is None:
            raise completion_request.BadRequest("Field required", "body.new_version")
        self._engine.version = version
        return http_server.Reply(200, {"success": True, "new_version": version})

    def _weight_info(self, _):
        return http_server.Reply(200, {"weight_version": self._engine.version})


def _rpc_failed(reason):
    return http_server.Reply(500, {"error": {
        "message": f"Call to collective_rpc method failed: {reason}", "type": "InternalServerError",
        "param": None, "code": 500}})
