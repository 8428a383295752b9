"""For plugin_job.py: the same changes through vLLM's own sparse patches, in the worker."""

import torch


class PatchWorker:
    """vLLM adds it to its Worker: --worker-extension-cls patch_worker.PatchWorker."""

    def apply_own_patches(self, path):
        from isthmus.vllm import changes
        from isthmus.vllm.checkpoint import DTYPES
        from vllm.config import set_current_vllm_config
        from vllm.model_executor.model_loader import checkpoint_weight_patch as own

        patches = [own.CheckpointWeightPatch(
            name, change.shape, DTYPES[change.dtype], change.bits.view(DTYPES[change.dtype]),
            changes.widen(change.positions)) for name, change in changes.read(path).tensors.items()]
        with set_current_vllm_config(self.vllm_config), torch.no_grad():
            own.load_checkpoint_weight_patches(self.model_runner.get_model(), patches)
