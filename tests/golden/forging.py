"""Forgeries of a part for the must-fail vectors: each breaks one rule and makes the digests anew."""

import xxhash
from checkpoint import Checkpoint
from must_decode import PLAIN_STEPS, padded_frame, plain, stepped
from patch_writer import (
    RAW, changes_at, direct_fields, planes, string, u32, u64, varint,
)  # fmt: skip
from wire import FRAME_MAGIC, stored_blocks

CODES, EMBED, BIAS, WEIGHT, WIDE = range(5)  # F4 raw, F32 xor; direct: U8 [40], BF16, I64 [6]
CONFIG, NOTES, HEADER, OLD = range(4)  # kinds 0, 0, 2 (the shard's header), 1
SKIPPABLE_FRAME = bytes.fromhex("502a4d1804000000") + b"skip"

# Forgeries: functions of the part, that change it or return the bytes of the forged one.


def header(**fields):
    return lambda part: part.forge.update(fields)


def tensor(index, **fields):
    return lambda part: part.tensors[index].forge.update(fields)


def file(index, **fields):
    return lambda part: part.files[index].forge.update(fields)


def attribute(kind, index, name, value):
    return lambda part: setattr(getattr(part, kind)[index], name, value)


def payload(index, data):
    return attribute("tensors", index, "payloads", [data])


def direct(index, function, **forged):
    """A payload of what `function` makes of the true [(gap, step)], with fields replaced."""

    def forge(part):
        entry = part.tensors[index]
        changes = changes_at(PLAIN_STEPS[entry.name.decode()])
        fields = direct_fields(function(changes), gap_mode=1, step_mode=1)
        fields |= {name: replace(fields[name]) for name, replace in forged.items()}
        entry.payloads = [b"".join(fields.values())]

    return forge


def field(**forged):
    """A direct payload of the true changes of layer.bias, but for {field: function of it}."""
    return direct(BIAS, lambda changes: changes, **forged)


def other_step(index, d):
    """Another step for the change of unit `at`, equal to the true one modulo 2^(8w)."""
    modulus = {BIAS: 2**8, WEIGHT: 2**16, WIDE: 2**32}[index]

    def replace(changes):
        out = [(gap, d if (true - d) % modulus == 0 else true) for gap, true in changes]
        assert out != changes
        return out

    return direct(index, replace)


def split_first(gap):
    """The first step in two, the second of them at a position that is the same if sums wrap."""

    def replace(changes):
        (first_gap, d), *rest = changes
        return [(first_gap, d - 1), (gap, 1), *rest]

    return direct(BIAS, replace)


def frame_of(index, function):
    """The payload of a raw or xor tensor, as a function of what its frame should hold."""

    def forge(part):
        old, new, _ = plain()
        name = part.tensors[index].name
        before, after = old.data(old.tensors[name]), new.data(new.tensors[name])
        difference = bytes(a ^ b for a, b in zip(before, after))
        content = after if index == CODES else planes(difference, 4)
        part.tensors[index].payloads = [function(content)]

    return forge


def note(function):
    """The payload of extra/notes.txt."""
    return file(NOTES, payload=function(b"new\n"))


def mode_1(function):
    """Replaces the frame of symbols, given its content."""
    return lambda data: b"\1" + string(function(stored_content(data)))


def stored_content(symbols):
    """The symbols in mode 1, in one stored frame of fewer than 64."""
    return symbols[2 + 4 + 2 + 3 :]


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
    """tables_bytes and payload_bytes whose sum is right modulo 2^64."""
    size = len(part.write())
    part.forge |= {"tables_bytes": u32(2**32 - 1)}
    part.forge |= {"payload_bytes": u64((size - 128 - (2**32 - 1)) % 2**64)}


def payload_sizes_that_wrap(part):
    """Two file payloads of 2^63 bytes more."""
    for entry in part.files[:2]:
        entry.forge["bytes"] = varint(len(entry.payload()) + 2**63)


def swap_first_tensors(part):
    a, b = part.tensors[:2]
    part.tensors[:2] = b, a


def reverse_first_files(part):
    part.files[:2] = reversed(part.files[:2])


def duplicate_file(part):
    part.files.insert(1, part.files[0])


def little_endian_digest(part):
    part.forge["digest"] = part.fields()["digest"][::-1]


def wrong_chunk_digest(part):
    chunk = part.tensors[BIAS].payloads[0]
    digest = xxhash.xxh3_64_intdigest(chunk) ^ 1
    part.tensors[BIAS].forge["chunks"] = varint(len(chunk)) + u64(digest)


def chunk_digest_big_endian(part):
    chunk = part.tensors[BIAS].payloads[0]
    part.tensors[BIAS].forge["chunks"] = varint(len(chunk)) + xxhash.xxh3_64_digest(chunk)


def wrong_payload(part):
    """One bit of the last payload: extra/notes.txt and config.json lie before the header."""
    data = bytearray(part.write())
    data[-1] ^= 0x40
    return bytes(data)


def wrong_new_digest(part):
    part.tensors[WEIGHT].new_digest = part.tensors[WEIGHT].old_digest


def place_bias(part, data_of):
    """Makes the result one in which layer.bias holds data_of(its old bytes)."""

    def edit(files, old):
        place = old.tensors[b"layer.bias"]
        shard = files[place.shard]
        data = data_of(old.data(place))
        files[place.shard] = shard[: place.begin] + data + shard[place.end :]

    retarget(part, edit)


def no_change(part):
    """A count of 0 in a tensor that does not change."""
    place_bias(part, lambda data: data)
    part.tensors[BIAS].new_digest = part.tensors[BIAS].old_digest
    part.tensors[BIAS].payloads = [b"".join(direct_fields([]).values())]


def half_steps(part):
    """A chunk that decodes well, to the right version, but not to new_digest."""
    steps = {at: d // 2 for at, d in PLAIN_STEPS["layer.bias"].items()}
    place_bias(part, lambda data: stepped(("U8", (40,), data), steps, 1)[2])
    part.tensors[BIAS].payloads = [b"".join(direct_fields(changes_at(steps)).values())]


def payload_too_large(part):
    """A raw payload one byte too large that a frame fills."""
    old, new, _ = plain()
    entry = part.tensors[BIAS]
    entry.encoding = RAW
    entry.payloads = [padded_frame(new.data(new.tensors[entry.name]), 40 + 1025)]


def wrong_target(part):
    part.target = part.target[::-1]


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
