"""Publishing from torch tensors, which only the engines' environment has."""

import pathlib
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

import isthmus  # noqa: E402
import torch  # noqa: E402
from isthmus import _core, _device  # noqa: E402
from package import PackageTest  # noqa: E402

TORCH = {"BF16": torch.bfloat16, "F8_E4M3": torch.float8_e4m3fn, "U8": torch.uint8, "F32": torch.float32,
         "F16": torch.float16, "I64": torch.int64}


def tensors(model):
    """The model's tensors as torch tensors that share its memory."""
    made = {}
    for name, (dtype, shape) in model.shapes.items():
        content = model.content[name]
        made[name] = (torch.frombuffer(content, dtype=TORCH[dtype]).view(shape) if content
                      else torch.empty(shape, dtype=TORCH[dtype]))
    return made


class TorchTest(PackageTest):
    def test_versions_are_those_of_the_program(self):
        publisher = self.publisher()
        for _ in range(3):
            version = publisher.publish(tensors(self.model))
            reference = self.publish_by_program()
            self.assertEqual(version.digest, reference.digest)
            self.assertEqual(self.parts_of(version), self.parts_of(reference))
            self.model.step()

    def test_a_modules_parameters(self):
        module = torch.nn.Linear(64, 32, dtype=torch.bfloat16)
        with self.publisher(files=self.dir) as publisher:
            version = publisher.publish(module.named_parameters())
            self.assertEqual(version.elements, 64 * 32 + 32)
            with torch.no_grad():
                module.bias += 1
            self.assertEqual(publisher.publish(module.state_dict()).changed, 32)

    def test_gaps_in_every_dtype(self):
        for background in (False, True):
            spread = {}
            for name, tensor in tensors(self.model).items():
                wide = torch.empty(*tensor.shape, 2, dtype=tensor.dtype)
                bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
                wide.view(bits)[..., 1] = tensor.view(bits)
                spread[name] = wide[..., 1]
            name = "model.embed_tokens.weight"
            spread[name] = tensors(self.model)[name].t().contiguous().t()
            self.assertFalse(spread[name].is_contiguous())
            with self.publisher(f"gaps-{background}", background=background) as publisher:
                published = publisher.publish(spread)
                self.assert_pulls(published.result() if background else published)

    def test_tied_weights_of_a_state_dict(self):
        tied = tensors(self.model)
        tied["lm_head.weight"] = tied["model.embed_tokens.weight"].view(1200, 900)
        self.assert_pulls(self.publisher().publish(tied))

    def test_a_projection_casts_master_weights(self):
        master = {n: t.to(torch.float32) if t.dtype == torch.bfloat16 else t
                  for n, t in tensors(self.model).items()}
        cast = {n: t.to(torch.bfloat16) for n, t in master.items() if t is not tensors(self.model)[n]}

        def project(name, tensor):
            return tensor.to(TORCH[self.model.shapes[name][0]])

        expected = {n: bytes(c) for n, c in self.model.content.items()}
        for name in ("model.embed_tokens.weight", "model.norm.weight", "scalar"):
            expected[name] = cast[name].view(torch.uint8).numpy().tobytes() if cast[name].dim() else (
                cast[name].reshape(1).view(torch.uint8).numpy().tobytes())
        self.assert_pulls(self.publisher(project=project).publish(master), expected)

    def test_refusals_name_the_tensor(self):
        weight = "model.norm.weight"
        plain = torch.zeros(900, dtype=torch.bfloat16)

        class Wrapped(torch.Tensor):
            @classmethod
            def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
                raise AssertionError("nothing is computed with it")

        cases = {
            "meta device": plain.to("meta"),
            "its layout is torch.sparse_coo": plain.to_sparse(),
            "quantised": torch.quantize_per_tensor(torch.zeros(900), 0.1, 0, torch.qint8),
            "conjugate": torch.zeros(900, dtype=torch.complex64).conj(),
            "negative": torch.zeros(900, dtype=torch.complex64).conj().imag,
            "no dtype torch.complex128": torch.zeros(900, dtype=torch.complex128),
            "a Wrapped, whose bits": torch.Tensor._make_subclass(Wrapped, plain),
            r"F32 \[900\], the checkpoint has BF16": plain.float(),
        }
        publisher = self.publisher()
        for message, tensor in cases.items():
            with self.subTest(message), self.assertRaisesRegex(isthmus.InvalidError,
                                                               f"{weight}: .*{message}"):
                publisher.publish(tensors(self.model) | {weight: tensor})
        self.assertIsNone(self.board.head("python"))

    def test_gradients_do_no_harm(self):
        wanting = {n: t.requires_grad_() if t.is_floating_point() else t
                   for n, t in tensors(self.model).items()}
        self.assert_pulls(self.publisher().publish(wanting))

    def test_dlpack_with_gaps_is_read_by_torch(self):
        class Lent:
            def __init__(self, tensor):
                self.tensor = tensor

            def __dlpack__(self, **options):
                return self.tensor.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.tensor.__dlpack_device__()

        lent = tensors(self.model)
        name = "model.embed_tokens.weight"
        lent[name] = Lent(lent[name].t().contiguous().t())
        self.assert_pulls(self.publisher().publish(lent))

    def test_what_is_copied_in_pieces_arrives_whole(self):
        bits = torch.randint(-(1 << 15), 1 << 15, (7, 5, 3), dtype=torch.int16)
        for given in (bits, bits.transpose(0, 2), bits[::2], bits[0, 0, 0]):
            for piece in (2, 6, 30, 1 << 20):
                with self.subTest(shape=given.shape, piece=piece), \
                        unittest.mock.patch.object(_device, "PIECE_BYTES", piece):
                    memory = _core.HostMemory(1000, 1, True)
                    _device.copy(given, memory, 64)  # on the CPU: without pinned memory
                    self.assertEqual(bytes(memory.view(64, given.numel() * 2)),
                                     given.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())

    def test_pinned_pieces_are_read_after_their_copy_and_not_used_again_before(self):
        class Piece:
            """Pinned memory into which copies only begin: they are over when the event is waited for."""

            def __init__(self):
                self.bytes, self.due = torch.zeros(10, dtype=torch.uint8), None

            def numel(self):
                return 10

            def __getitem__(self, part):
                self.part = part
                return self

            def copy_(self, piece, non_blocking):
                assert non_blocking and self.due is None, "the piece before was not yet copied on"
                self.due = (self.part, piece.clone())

            def data_ptr(self):
                assert self.due is None, "read before the copy was over"
                return self.bytes.data_ptr()

            def record(self):
                assert self.due is not None

            def synchronize(self):
                part, piece = self.due
                self.bytes[part] = piece
                self.due = None

        pieces = [Piece(), Piece()]
        flat = torch.arange(57, dtype=torch.uint8)
        memory = _core.HostMemory(64, 1, True)
        _device.Staging(pieces, pieces).copy(flat, memory, 3)
        self.assertEqual(bytes(memory.view(3, 57)), flat.numpy().tobytes())

    @unittest.skipUnless(torch.cuda.is_available(), "no GPU")
    def test_a_gpu(self):
        for background in (False, True):
            on_gpu = {n: t.cuda() for n, t in tensors(self.model).items()}
            name = "model.embed_tokens.weight"
            on_gpu[name] = on_gpu[name].t().contiguous().t()
            with self.publisher(f"gpu-{background}", background=background) as publisher:
                published = publisher.publish(on_gpu)
                self.assert_pulls(published.result() if background else published)
            self.model.step()


if __name__ == "__main__":
    unittest.main()
