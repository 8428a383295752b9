"""Forgeries of a part for the must-fail vectors: each breaks one rule and makes the digests anew.

They are functions of the part, that change it or return the bytes of the forged one. Those of
sparse payloads and of models are in forging_sparse.py.
"""

import xxhash
from checkpoint import DTYPE_IDS, Checkpoint
from drawing import stepped
from layout import chunks_of, sum_change
from must_decode import PLAIN_STEPS, padded_frame, plain
from patch_writer import (
    RAW, Chunk, File, Tensor, chunk_bytes, difference, encode_raw, planes, string, u32, u64, varint,
)  # fmt: skip
from wire import FRAME_MAGIC, stored_blocks, stored_frame

CODES, EMBED, BIAS, TAIL, WEIGHT, WIDE = range(6)  # tensor entries, by name
# Chunks, by number: F4 raw; U8 direct, a pool of bias, gain (unchanged) and tail; BF16 context;
# F32 xor; I64 direct. U8, BF16 and I64 have models of their own, in this order.
F4, U8, BF16, F32, I64 = range(5)
CONFIG, NOTES, HEADER, OLD = range(4)  # kinds 0, 0, 2 (the shard's header), 1
SKIPPABLE_FRAME = bytes.fromhex("502a4d1804000000") + b"skip"


def header(**fields):
    return lambda part: part.forge.update(fields)


def tensor(index, **fields):
    return lambda part: part.tensors[index].forge.update(fields)


def file(index, **fields):
    return lambda part: part.files[index].forge.update(fields)


def attribute(kind, index, name, value):
    return lambda part: setattr(getattr(part, kind)[index], name, value)


def chunk(index, **fields):
    return lambda part: part.chunks[index].forge.update(fields)


def payload(index, data):
    return attribute("chunks", index, "payload", data)


def sides(number):
    """The old and the new bytes of a chunk of plain."""
    old, new, _ = plain()
    layout = chunks_of(old.tensors)[number]
    return chunk_bytes(old, layout), chunk_bytes(new, layout)


def frame_of(index, function):
    """The payload of a raw or xor chunk, as a function of what its frame should hold."""

    def forge(part):
        old, new = sides(index)
        content = new if index == F4 else planes(difference(old, new), 4)
        part.chunks[index].payload = function(content)

    return forge


def note(function):
    """The payload of extra/notes.txt."""
    return file(NOTES, payload=function(b"new\n"))


def retarget(part, edit):
    """States the version of an edited result: edit(its {path: content}, base checkpoint)."""
    old, new, _ = plain()
    files = dict(new.files)
    edit(files, old)
    part.target = Checkpoint(files).version()


def path(name, index=NOTES):
    """Another path for a file of kind 0."""

    def forge(part):
        entry = part.files[index]

        def edit(files, old):
            files.pop(entry.path.decode())
            files[name.decode()] = entry.content
            if index == CONFIG:
                files["config.json"] = old.files["config.json"]

        retarget(part, edit)
        entry.forge["path"] = string(name)

    return forge


def raw_tables(function):
    return lambda part: setattr(part, "forge_raw_tables", function)


def tables_frame(function):
    """The frame of the tables, of their raw bytes."""
    return lambda part: part.forge.update(tables=function(part.raw_tables()))


def whole(function):
    return lambda part: function(part.write())


def without_content_size(content):
    return FRAME_MAGIC + b"\x00\x50" + stored_blocks(content)


def wrong_checksum(content):
    head = FRAME_MAGIC + b"\xa4" + u32(len(content)) + stored_blocks(content)
    return head + u32(xxhash.xxh64_intdigest(content) & 0xFFFFFFFF ^ 1)


def with_dictionary(content):
    return FRAME_MAGIC + b"\xa1\x07" + u32(len(content)) + stored_blocks(content)


def all_of(*functions):
    def forge(part):
        for function in functions:
            function(part)

    return forge


def sizes_that_wrap(part):
    """tables_bytes and payload_bytes such that the sum of sizes is right modulo 2^64."""
    fields = part.fields()
    beside = len(fields["tables"]) + len(fields["payloads"]) - (2**32 - 1)
    part.forge |= {"tables_bytes": u32(2**32 - 1), "payload_bytes": u64(beside % 2**64)}


def payload_sizes_that_wrap(part):
    """Two file payloads of 2^63 bytes more."""
    for entry in part.files[:2]:
        entry.forge["bytes"] = varint(len(entry.payload()) + 2**63)


def more_checks(size, **fields):
    """Counts that go with `size` more bytes of checks, or fewer."""

    def forge(part):
        checks = part.fields()["checks"]
        part.forge |= fields | {"checks": checks + bytes(size) if size > 0 else checks[:size]}

    return forge


def without_files(part):
    part.files = []


def swap_first_tensors(part):
    a, b = part.tensors[:2]
    part.tensors[:2] = b, a


def reverse_first_files(part):
    part.files[:2] = reversed(part.files[:2])


def duplicate_file(part):
    part.files.insert(1, part.files[0])


def little_endian_digest(part):
    part.forge["digest"] = part.fields()["digest"][::-1]


def digest_without_checks(part):
    fields = part.fields()
    names = list(fields)[: list(fields).index("digest")]
    data = b"".join(fields[name] for name in names) + fields["tables"]
    part.forge["digest"] = xxhash.xxh3_128_digest(data)


def chunk_check(function):
    """The check of the U8 chunk, of the XXH3-64 of its payload."""

    def forge(part):
        entry = part.chunks[U8]
        entry.forge["check"] = function(xxhash.xxh3_64_intdigest(entry.payload))

    return forge


def sums(by):
    """{index of a tensor entry: what is added to its check}"""

    def forge(part):
        for index, value in by.items():
            part.tensors[index].sum_change += value

    return forge


def opposite_sum(part):
    part.tensors[WEIGHT].sum_change *= -1


def big_endian_sum(part):
    part.tensors[WEIGHT].forge["check"] = part.tensors[WEIGHT].check()[::-1]


def sum_of_elements(part):
    """Positions of 64-bit elements instead of units, the element as one number."""
    old, new, _ = plain()
    data = [side.data(side.tensors[b"wide"]) for side in (old, new)]
    part.tensors[WIDE].sum_change = sum_change(*data, 8)


def sum_in_the_pool(part):
    """Positions in the pool instead of in the tensor: layer.tail begins at 45."""
    old, new = (bytes(45) + side[45:] for side in sides(U8))
    part.tensors[TAIL].sum_change = sum_change(old, new, 1)


def without_entry(index):
    def forge(part):
        del part.tensors[index]

    return forge


def entry_of_gain(part):
    """An entry of the tensor in the pool that does not change."""
    part.tensors.insert(TAIL, Tensor(b"layer.gain", DTYPE_IDS["U8"], (5,), 1, 1))


def one_more_chunk(payload=stored_frame(bytes(8)), **fields):
    """A raw chunk after the checkpoint's last one."""

    def forge(part):
        part.chunks.append(Chunk(I64 + 1, RAW, None, payload, fields))

    return forge


def place(part, tensors):
    """Makes the result one in which some tensors hold {name: data}."""

    def edit(files, old):
        for name, data in tensors.items():
            tensor = old.tensors[name]
            shard = files[tensor.shard]
            files[tensor.shard] = shard[: tensor.begin] + data + shard[tensor.end :]

    retarget(part, edit)


def half_steps(part):
    """A chunk that decodes well, to the right version, but not to the stated sums."""
    old, new = sides(BF16)
    steps = {at: d // 2 or 1 for at, d in PLAIN_STEPS["layer.weight"].items()}
    half = stepped(("BF16", (6, 8), old), steps, 2)[2]
    place(part, {b"layer.weight": half})
    part.chunks[BF16] = Chunk(BF16, RAW, None, encode_raw(old, half, DTYPE_IDS["BF16"])[2])


def payload_too_large(part):
    """A raw payload one byte too large that a frame fills."""
    _, new = sides(U8)
    part.chunks[U8] = Chunk(U8, RAW, None, padded_frame(new, len(new) + 1025))


def wrong_payload(part):
    """One bit of the last payload: extra/notes.txt and config.json lie before the header."""
    data = bytearray(part.write())
    data[-1] ^= 0x40
    return bytes(data)


def remove_another(part):
    part.files.append(File(b"other.txt", 1))


def wrong_target(part):
    part.target = part.target[::-1]


def wrong_base(part):
    part.base = part.base[::-1]


def place_header(part, header):
    """Makes the result one with another header of the shard."""

    def edit(files, old):
        shard = part.files[HEADER].path.decode()
        files[shard] = header + files[shard][len(old.shards[shard]) :]

    retarget(part, edit)
    part.files[HEADER].content = header


def header_with(old, new):
    """The shard's header with another text in it, as long as before."""

    def forge(part):
        header = part.files[HEADER].content
        assert old in header and len(old) == len(new)
        place_header(part, header.replace(old, new))

    return forge


def header_no_json(part):
    content = part.files[HEADER].content
    part.files[HEADER].content = content.replace(b'{"__', b"{{__")


def longer_header(part):
    content = part.files[HEADER].content
    length = int.from_bytes(content[:8], "little") + 8
    place_header(part, u64(length) + content[8:] + b" " * 8)


def header_of_no_shard(part):
    entry = part.files[HEADER]
    forged = entry.content
    place_header(part, plain()[0].shards[entry.path.decode()])
    entry.content, entry.path = forged, b"model-00001-of-00002.safetensors"
