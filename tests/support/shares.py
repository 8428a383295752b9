"""A small model in memory that changes as in training, its checkpoint, and its shares: what each of
many ranks holds (docs/ranks.md, "A share")."""

import json
import math
import pathlib
import shutil
import struct
import subprocess

BITS = {"BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "BF16": 16, "F16": 16, "I16": 16,
        "F32": 32, "I32": 32, "U32": 32, "F64": 64, "I64": 64, "U64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
        "F8_E8M0": 8, "U16": 16, "C64": 64}


def bytes_of(dtype, shape):
    return BITS[dtype] * math.prod(shape) // 8


def write_safetensors(path, tensors, metadata=None):
    """`tensors`: name to (dtype, shape, bytes)."""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape),
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    if metadata:
        header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class Model:
    """`shapes`: name to (dtype, shape)."""

    def __init__(self, shapes, random):
        self.shapes = {name: (dtype, tuple(shape)) for name, (dtype, shape) in shapes.items()}
        self.random = random
        self.content = {name: bytearray(random.randbytes(bytes_of(*kind)))
                        for name, kind in self.shapes.items()}

    def rows(self, name):
        """How many rows of whole bytes the tensor can be cut into; 1 if it can only be held whole."""
        dtype, shape = self.shapes[name]
        if not shape or shape[0] == 0:
            return 1
        return shape[0] if BITS[dtype] * math.prod(shape[1:]) % 8 == 0 else 1

    def step(self, one_in=400):
        """Changes one byte of so many in each tensor, at least one; 1: every byte, 0: none."""
        for content in self.content.values():
            if not content or one_in == 0:
                continue
            if one_in == 1:
                content[:] = bytes(255 - byte for byte in content)
                continue
            for _ in range(len(content) // one_in + 1):
                content[self.random.randrange(len(content))] ^= self.random.randrange(1, 256)

    def write_checkpoint(self, directory):
        """The model whole, in two shards, and what a checkpoint has beside them."""
        directory = pathlib.Path(directory)
        shutil.rmtree(directory, ignore_errors=True)
        names, places = sorted(self.shapes), {}
        for shard in range(2):
            file = f"model-{shard}.safetensors"
            tensors = {name: (*self.shapes[name], bytes(self.content[name]))
                       for name in names[shard::2]}
            write_safetensors(directory / file, tensors)
            places |= dict.fromkeys(tensors, file)
        (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
        (directory / "config.json").write_text('{"model":"small"}')
        return directory

    def write_share(self, directory, files):
        """`files`: for each file what of each tensor is in it, (first row, end) or None for all."""
        shutil.rmtree(directory, ignore_errors=True)
        for number, held in enumerate(files):
            tensors, rows = {}, {}
            for name, part in held.items():
                dtype, shape = self.shapes[name]
                content = bytes(self.content[name])
                if part is not None:
                    row = len(content) // shape[0] if shape[0] else 0
                    content = content[part[0] * row:part[1] * row]
                    rows[name] = [part[0], shape[0]]
                    shape = (part[1] - part[0], *shape[1:])
                tensors[name] = (dtype, shape, content)
            metadata = {"isthmus.rows": json.dumps(rows)} if rows else None
            write_safetensors(directory / f"share-{number}.safetensors", tensors, metadata)
        return directory


def block_of(rows, rank, ranks):
    """As torch's fully sharded data parallelism: rows in equal blocks, the last ones short or empty."""
    block = -(-rows // ranks)
    return min(rows, rank * block), min(rows, (rank + 1) * block)


def header_of(file):
    with open(file, "rb") as shard:
        (size,) = struct.unpack("<Q", shard.read(8))
        return json.loads(shard.read(size)), 8 + size


def cut_shard(file, rank, ranks, out):
    """The rank's rows of every tensor of a shard."""
    header, start = header_of(file)
    header.pop("__metadata__", None)
    held, rows, places, at = {}, {}, [], 0
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        count = tensor["shape"][0]
        first, last = block_of(count, rank, ranks)
        row_bytes = (end - begin) // count
        size = (last - first) * row_bytes
        held[name] = {"dtype": tensor["dtype"], "shape": [last - first, *tensor["shape"][1:]],
                      "data_offsets": [at, at + size]}
        rows[name] = [first, count]
        places.append((start + begin + first * row_bytes, size))
        at += size
    held["__metadata__"] = {"isthmus.rows": json.dumps(rows)}
    text = json.dumps(held).encode()
    text += b" " * (-len(text) % 8)
    with open(file, "rb") as whole, open(out, "wb") as share:
        share.write(struct.pack("<Q", len(text)) + text)
        for offset, size in places:
            whole.seek(offset)
            share.write(whole.read(size))


def cut_checkpoint(checkpoint, rank, ranks, out):
    """Writes a rank's share of a checkpoint directory, of whose tensors each has rows, to `out`."""
    out.mkdir(parents=True)
    for file in sorted(checkpoint.glob("*.safetensors")):
        cut_shard(file, rank, ranks, out / file.name)
    return out


# Ways to give a model to ranks. Each returns, by rank, the files of its share.

def by_rows(model, ranks):
    shares = [{} for _ in range(ranks)]
    for name in model.shapes:
        rows = model.rows(name)
        if rows == 1:
            shares[ranks - 1][name] = None
            continue
        for rank in range(ranks):
            shares[rank][name] = block_of(rows, rank, ranks)
    return [[share] for share in shares]


def by_tensors(model, ranks):
    """Whole tensors, in turn."""
    shares = [{} for _ in range(ranks)]
    for number, name in enumerate(sorted(model.shapes)):
        shares[number % ranks][name] = None
    return [[share] for share in shares]


def at_random(model, ranks, pieces=6, files=6):
    """Each tensor cut anywhere, its pieces with any ranks; of one tensor each in a file of its own."""
    random = model.random
    shares = [[{} for _ in range(files)] for _ in range(ranks)]
    for name in model.shapes:
        rows = model.rows(name)
        if rows == 1:
            random.choice(shares)[0][name] = None
            continue
        cuts = sorted([0, rows, *(random.randint(0, rows) for _ in range(random.randrange(pieces)))])
        for begin, end in zip(cuts, cuts[1:]):
            free = [file for share in shares for file in share if name not in file]
            random.choice(free)[name] = (begin, end)
    return shares


class Ranks:
    """N processes that publish together. `start(arguments)` starts the program and returns the process,
    with pipes; `options` are those of every rank."""

    def __init__(self, directory, start, options):
        self.directory, self.start_program, self.options = pathlib.Path(directory), start, options

    def share(self, rank):
        return self.directory / f"share-{rank}"

    def baseline(self, rank):
        return self.directory / f"baseline-{rank}"

    def write_shares(self, model, shares):
        for rank, files in enumerate(shares):
            model.write_share(self.share(rank), files)

    def start(self, rank, ranks, step, *more, baseline=None):
        return self.start_program(
            ["publish", self.share(rank), *self.options, "--rank", rank, "--ranks", ranks, "--step",
             step, "--baseline", baseline or self.baseline(rank), "--json", *more])

    def publish(self, ranks, step, *more):
        """All ranks, from their shares as they are."""
        return finish_all([self.start(rank, ranks, step, *more) for rank in range(ranks)])


def finish(process, deadline_s=120):
    """Waits for a process with pipes; a subprocess.CompletedProcess."""
    try:
        out, error = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, error = process.communicate()
        raise AssertionError(f"not ended within {deadline_s} s: {process.args}\n{out}{error}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, error)


def finish_all(processes):
    return [finish(process) for process in processes]
