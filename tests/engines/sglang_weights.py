"""The SGLang double's weights: update from disk, the tensor session, versions, the checker."""

import base64
import binascii
import hashlib
import os
import pathlib
import pickletools

import double as base
import fake_engine
from double import Route
from http_server import HttpError, Reply

LOAD_ROUTES = ("/update_weights_from_disk", "/update_weights_from_tensor")
FAILED = "Failed to update weights: CUDA error: an illegal memory access was encountered."
ERROR_BODIES = {
    "/update_weights_from_disk": {"success": False, "message": FAILED, "num_paused_requests": 0},
    "/update_weights_from_tensor": {"success": False, "message": FAILED},
    "/begin_weight_update": {"success": False, "message": FAILED},
    "/end_weight_update": {"success": False, "message": FAILED},
    "/update_weight_version": {"success": False, "message": FAILED, "new_version": None}}
DISK_FORMATS = ("auto", "safetensors", "pt")  # those of the default loader
SELECTORS = ("target", "draft", "all")
FLUSH_REFUSED = "Weights were updated, but the cache was not flushed: requests are pending."
EXIT_OF_A_FAILED_ROLLBACK = 1

OPTIONS = {"flush_cache": (bool,), "abort_all_requests": (bool,), "weight_version": (str,),
           "torch_empty_cache": (bool,)}
DISK_BODY = {"model_path": (str,), "load_format": (str,), **OPTIONS, "is_async": (bool,),
             "recapture_cuda_graph": (bool,), "keep_pause": (bool,), "token_step": (int,),
             "manifest": (str, dict, list)}
TENSOR_BODY = {"serialized_named_tensors": (list,), "load_format": (str,), "selector": (str,),
               **OPTIONS}


class Weights:
    """`session`: a begin/end session is open. `told_version`: what /model_info says."""

    def __init__(self, double):
        self._double = double
        self._engine = double.engine
        self.session = False
        self.told_version = double.options.weight_version

    def routes(self):
        checker = {"action": (str,), "allow_quant_error": (bool,), "skip_tensor_list": (list,),
                   "selector": (str,)}
        return {
            "/update_weights_from_disk": Route(("POST",), self._from_disk, body=DISK_BODY,
                                               required=("model_path",)),
            "/begin_weight_update": Route(("POST",), self._begin, body={"selector": (str,)}),
            "/update_weights_from_tensor": Route(("POST",), self._from_tensor, body=TENSOR_BODY,
                                                 required=("serialized_named_tensors",)),
            "/end_weight_update": Route(("POST",), self._end, body={}),
            "/update_weight_version": Route(
                ("POST",), self._set_version, required=("new_version",),
                body={"new_version": (str,), "abort_all_requests": (bool,)}),
            "/weights_checker": Route(("GET", "POST"), self._check, body=checker,
                                      optional_body=True)}

    def refusal(self, rule, message, **more):
        """A Violation in the shape of the update routes."""
        body = {"success": False, "message": message, **more}
        return base.Violation(rule, 400, body, message)

    # From a directory

    def _from_disk(self, call):
        wanted = call.arguments
        if self.session:
            raise self.refusal("second_update", "a begin/end session is open")
        if wanted.get("load_format", "auto") not in DISK_FORMATS:
            raise self.refusal("bad_load_format", f"load_format {wanted['load_format']!r}")
        self._abort_if_asked(wanted)
        self._load_from_disk(call, wanted["model_path"])
        self._double.model_path = self._double.served_model_name = wanted["model_path"]
        return self._finish_load(call, num_paused_requests=0)

    def _abort_if_asked(self, wanted):
        if wanted.get("abort_all_requests"):
            self._engine.abort()

    def _load_from_disk(self, call, directory):
        self._double.begin_load()
        try:
            self._double.load(call, [directory] * len(self._engine.ranks))
        except fake_engine.Torn:
            os._exit(EXIT_OF_A_FAILED_ROLLBACK)  # the rollback reads the same torn file again
        except (OSError, ValueError) as error:
            raise HttpError(400, {"success": False, "message": str(error),
                                  "num_paused_requests": 0}) from error
        finally:
            self._double.end_load()

    def _finish_load(self, call, **more):
        """Records the version, flushes as asked, answers; the order is the real one."""
        wanted, engine = call.arguments, self._engine
        engine.version = wanted.get("weight_version", engine.version)
        if wanted.get("flush_cache", True):
            self._flush(more)
        self.told_version = engine.version
        message = "Succeeded to update model weights."
        return Reply(200, {"success": True, "message": message, **more})

    def _flush(self, more):
        with self._engine.changed:
            if self._engine.pause_mode == "in_place":
                raise self.refusal("flush_in_place", FLUSH_REFUSED, **more)
            if not self._double.may_flush():
                raise HttpError(400, {"success": False, "message": FLUSH_REFUSED, **more})
            self._engine.clear_prefixes()

    # Tensors within a session

    def _begin(self, call):
        if call.arguments.get("selector", "all") not in SELECTORS:
            raise self.refusal("bad_body", f"selector {call.arguments['selector']!r}")
        if self.session:
            raise self.refusal("second_update", "a weight update has already begun")
        self._double.begin_load("an update was begun while the engine generates")
        self._double.end_load()
        self.session = True
        return Reply(200, {"success": True, "message": "Weight update begun."})

    def _from_tensor(self, call):
        if not self.session:
            raise self.refusal("update_without_begin", "no weight update has begun")
        payloads = call.arguments["serialized_named_tensors"]
        directories = [_named_directory(payload) for payload in payloads]
        if len(directories) != len(self._engine.ranks) or None in directories:
            raise self.refusal("bad_payload", "one pickle a rank that names a directory")
        self._abort_if_asked(call.arguments)
        self._double.begin_load()
        try:
            self._double.load(call, directories)
        except (OSError, ValueError, fake_engine.Torn):
            os._exit(EXIT_OF_A_FAILED_ROLLBACK)  # the real scheduler dies of what a loader raises
        finally:
            self._double.end_load()
        reply = self._finish_load(call)
        call.proves_weights = False  # only the end of the session does
        return reply

    def _end(self, call):
        if not self.session:
            raise self.refusal("end_without_begin", "no weight update has begun")
        if self._engine.updating:
            raise self.refusal("end_during_update", "an update is running")
        self.session = False
        call.proves_weights = True
        return Reply(200, {"success": True, "message": "Weight update ended."})

    # Versions and checks

    def _set_version(self, call):
        if call.arguments.get("abort_all_requests", True):
            self._engine.abort()  # the default
        with self._engine.changed:
            if self._engine.running and not self._engine.pause_complete:
                raise self.refusal("version_while_generating", "tokens would be labelled wrongly")
            self._engine.version = self.told_version = call.arguments["new_version"]
        return Reply(200, {"success": True, "message": "Weight version updated.",
                           "new_version": self.told_version})

    def _check(self, call):
        action = call.arguments.get("action", "checksum")
        if action == "reset_tensors":
            self._engine.unproven = True
            self._engine.set_weights(range(len(self._engine.ranks)),
                                     fake_engine.Weights("randomised", {}))
        elif action != "checksum":
            raise self.refusal("bad_body", f"/weights_checker: action {action!r}")
        ranks = [self._rank_checksums(rank) for rank in range(len(self._engine.ranks))]
        whole = "".join(rank["per_gpu_checksum"] for rank in ranks)
        return Reply(200, {"success": True, "message": "", "ranks": ranks,
                           "per_engine_checksum": _hex16(whole)})

    def _rank_checksums(self, rank):
        weights = self._engine.ranks[rank]
        return {"checksums": {name: checksum[:16] for name, checksum in weights.checksums.items()},
                "per_gpu_checksum": weights.digest[:16], "parallelism_info": [{"tp_rank": rank}]}


def _hex16(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _named_directory(payload):
    """The directory that a base64 pickle names in one of its texts, without unpickling; or None."""
    try:
        operations = list(pickletools.genops(base64.b64decode(payload, validate=True)))
    except (binascii.Error, TypeError, ValueError):
        return None
    for _, argument, _ in operations:
        if isinstance(argument, str) and argument and pathlib.Path(argument).is_dir():
            return argument
    return None
