"""The vLLM double's weights: reload by RPC, the transfer session, versions, the checker."""

import fake_engine
import vllm_plugin_double
from double import Route
from http_server import Reply

LOAD_ROUTES = ("/collective_rpc", "/update_weights")
RELOAD_KEYS = {"weights_path", "is_checkpoint_format"}


def error_bodies(ranks):
    """What a 200 may say although something went wrong."""
    failed = "RuntimeError: CUDA error: an illegal memory access was encountered"
    return {"/collective_rpc": {"results": [None] * (ranks - 1) + [failed]},
            "/reset_prefix_cache": {"success": False},
            "/update_weight_version": {"success": False, "new_version": None}}


class Weights:
    """`session` is None, "target" or "draft" while an update is open."""

    def __init__(self, double):
        self._double = double
        self._engine = double.engine
        self._configured = double.options.directory  # what a reload without a path reads
        self._initialized = False
        self._plugin = None
        if double.options.weight_transfer_backend == "isthmus":
            self._plugin = vllm_plugin_double.Plugin(double.engine)
        self.session = None

    def routes(self):
        checker = {"action": (str,), "baseline": (dict,)}
        return {
            "/collective_rpc": Route(("POST",), self._collective_rpc, body={
                "method": (str,), "args": (list,), "kwargs": (dict,), "timeout": (int, float)},
                required=("method",)),
            "/init_weight_transfer_engine": Route(
                ("POST",), self._init, body={"init_info": (dict,)}, required=("init_info",)),
            "/shutdown_weight_transfer_engine": Route(("POST",), self._shutdown),
            "/start_weight_update": Route(("POST",), lambda call: self._start("target")),
            "/start_draft_weight_update": Route(("POST",), lambda call: self._start("draft")),
            "/update_weights": Route(("POST",), self._update, body={"update_info": (dict, list)},
                                     required=("update_info",)),
            "/finish_weight_update": Route(("POST",), self._finish, optional_body=True,
                                           body={"weight_version": (str,)}),
            "/update_weight_version": Route(("POST",), self._set_version, required=("new_version",),
                                            body={"new_version": (str,)}),
            "/weight_info": Route(("GET",), lambda call: Reply(200, {
                "weight_version": self._engine.version})),
            "/weight_checker": Route(("POST",), self._check, body=checker, required=("action",))}

    def _rpc_error(self, text):
        return self._double.error(500, f"Call to collective_rpc method failed: {text}")

    # Reload from a path

    def _collective_rpc(self, call):
        method, kwargs = call.arguments["method"], call.arguments.get("kwargs", {})
        if method == "check_health":
            return Reply(200, {"results": [None] * len(self._engine.ranks)})
        if method != "reload_weights":
            raise self._double.violation("unknown_rpc", f"no worker method {method}")
        if call.arguments.get("args") or not kwargs.keys() <= RELOAD_KEYS:
            raise self._double.violation("bad_rpc_arguments", f"reload_weights({kwargs})")
        self._refuse_while_asleep()
        if self.session:
            raise self._double.violation("second_update", "a transfer session is open")
        self._configured = kwargs.get("weights_path") or self._configured
        return self._load(call, [self._configured] * len(self._engine.ranks),
                          {"results": [None] * len(self._engine.ranks)})

    def _load(self, call, directories, answer):
        self._double.begin_load()
        try:
            self._double.load(call, directories)
        except (OSError, ValueError, fake_engine.Torn) as error:
            raise self._rpc_error(str(error)) from error
        finally:
            self._double.end_load()
        return Reply(200, answer)

    def _refuse_while_asleep(self):
        if "weights" in self._double.asleep:
            raise self._double.violation("update_while_asleep", "the weights are not resident")

    # The transfer session

    def _require_backend(self):
        if not self._double.options.weight_transfer_backend:
            raise self._double.violation("no_backend", "Weight transfer is not configured")

    def _init(self, call):
        if not self._double.options.weight_transfer_backend:  # one may ask whether there is one
            raise self._rpc_error("Weight transfer is not configured")
        if self._plugin:
            if not self._engine.pause_complete:
                raise self._double.violation("learn_without_pause", "the engine generates")
            self._guarded(self._plugin.init, call.arguments["init_info"])
        self._initialized = True
        return Reply(200, {"message": "Weight transfer initialized"})

    def _shutdown(self, _):
        self._require_backend()
        if self.session:
            raise self._double.violation("shutdown_during_update", "an update is open")
        self._initialized = False
        return Reply(200, {"message": "Weight transfer engine shut down"})

    def _start(self, kind):
        self._require_backend()
        self._refuse_while_asleep()
        if not self._initialized:
            raise self._double.violation("start_without_init", "the engine is not initialized")
        if self.session:
            raise self._double.violation(
                "second_update", "Weight update already active. Call finish_weight_update first.")
        if not self._plugin:  # that one reads ahead
            self._double.begin_load("an update was started while the engine generates")
            self._double.end_load()
        self.session = kind
        label = "Weight" if kind == "target" else "Draft weight"
        return Reply(200, {"message": f"{label} update started"})

    def _update(self, call):
        self._require_session()
        try:
            if self._plugin:
                reply = self._update_in_place(call)
            else:
                directories = self._directories(call.arguments["update_info"])
                reply = self._load(call, directories, {"message": "Weights updated"})
        except BaseException:
            self.session = None  # an exception in an update closes it; a new start is accepted
            raise
        call.proves_weights = False  # only the finish does
        return reply

    def _update_in_place(self, call):
        if call.arguments["update_info"].get("prepare") is True:
            self._guarded(self._plugin.update, call.arguments["update_info"])
            return Reply(200, {"message": "Weights updated"})
        self._double.begin_load()
        try:
            call.proves_weights = True
            weights = self._guarded(self._plugin.update, call.arguments["update_info"])
            self._engine.set_weights(range(len(self._engine.ranks)), weights)
            self._double.strike(call, "midway")
        finally:
            self._double.end_load()
        return Reply(200, {"message": "Weights updated"})

    def _guarded(self, action, info):
        try:
            return action(info)
        except (vllm_plugin_double.Refused, OSError) as error:
            raise self._rpc_error(str(error)) from error

    def _require_session(self):
        self._require_backend()
        if not self.session:
            raise self._double.violation("update_without_start", "no weight update is active")

    def _directories(self, infos):
        """The directory for each rank of one update_info for all, or of a list by rank."""
        ranks = len(self._engine.ranks)
        infos = infos if isinstance(infos, list) else [infos] * ranks
        expected = set(self._double.options.update_info_keys.split(","))
        if len(infos) != ranks or any(not isinstance(info, dict) or info.keys() != expected
                                      for info in infos):
            self.session = None
            raise self._double.violation(
                "bad_update_info", f"Invalid update_info for {ranks} ranks: {infos}")
        return [info["path"] for info in infos]

    def _finish(self, call):
        if not self.session:  # one may make sure that none is open
            raise self._rpc_error("finish_weight_update called without a matching start")
        if self._engine.updating:
            raise self._double.violation("finish_during_update", "an update is running")
        self.session = None
        self._double.strike(call, "midway")  # the workers have finished, the label is the old one
        self._engine.version = call.arguments.get("weight_version", self._engine.version)
        call.proves_weights = True
        return Reply(200, {"message": "Weight update finished"})

    # Versions and checks

    def _set_version(self, call):
        with self._engine.changed:
            if self._engine.running and not self._engine.pause_complete:
                raise self._double.violation("version_while_generating",
                                             "tokens in flight would be labelled wrongly")
            self._engine.version = call.arguments["new_version"]
        return Reply(200, {"success": True, "new_version": self._engine.version})

    def _check(self, call):
        action, found = call.arguments["action"], self._checksums()
        if action == "checksum":
            return Reply(200, {"checksums": found})
        if action == "compare":
            baseline = call.arguments.get("baseline", {})
            wrong = sorted(name for name in baseline.keys() | found.keys()
                           if baseline.get(name) != found.get(name))
            return Reply(200, {"match": not wrong, "mismatches": wrong})
        if action == "reset":
            self._double.discard_weights("zeroed")
            return Reply(200, {"status": "reset"})
        raise self._double.violation("bad_body", f"/weight_checker: action {action}", 400)

    def _checksums(self):
        return {f"dp0:pp0:pcp0:tp{rank}:{name}": checksum
                for rank, weights in enumerate(self._engine.ranks)
                for name, checksum in weights.checksums.items()}
