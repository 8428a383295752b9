"""Models of the real vLLM in this process, loaded as a worker loads them, with the plug-in's hooks."""

import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "examples" / "vllm"),
                str(ROOT / "examples" / "refengine"), str(ROOT / "tests" / "support")]
os.environ.update({"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
                   "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "ERROR"})

import torch  # noqa: E402
import vllm.distributed  # noqa: E402
import vllm.v1.worker.cpu.shm  # noqa: E402, F401
from isthmus.vllm import register  # noqa: E402
from vllm.config import set_current_vllm_config  # noqa: E402
from vllm.engine.arg_utils import EngineArgs  # noqa: E402
from vllm.model_executor.model_loader import get_model  # noqa: E402


def join_group(rank=0, ranks=1, meeting=None):
    """Makes this process one of `ranks` that share each layer; meeting: a file that all name. Again
    for each model, for what groups there are depends on it; called within its configuration."""
    if not torch.distributed.is_initialized():
        meeting = pathlib.Path(meeting or tempfile.mktemp(prefix="isthmus-group-"))
        os.environ["VLLM_DIST_IDENT"] = meeting.parent.name  # by which processes find shared memory
        vllm.distributed.init_distributed_environment(ranks, rank, f"file://{meeting}", rank, "gloo")
    else:
        vllm.distributed.destroy_model_parallel()
    vllm.distributed.initialize_model_parallel(ranks)


def config_of(checkpoint, ranks=1, dtype="bfloat16", backend="isthmus"):
    transfer = {"weight_transfer_config": {"backend": backend}} if backend else {}
    return EngineArgs(model=str(checkpoint), dtype=dtype, enforce_eager=True, max_model_len=256,
                      tensor_parallel_size=ranks, **transfer).create_engine_config()


def load(checkpoint, rank=0, ranks=1, meeting=None, **options):
    """(configuration, model) of a checkpoint."""
    register()
    config = config_of(checkpoint, ranks, **options)
    with set_current_vllm_config(config):
        join_group(rank, ranks, meeting)
        return config, get_model(vllm_config=config)
