"""The must-fail vectors: {name: (part, verdict)}, one for each thing that a decoder must check.

Each is must-decode/plain with one forgery, and with all digests made anew that the forgery does not
concern. Where it can be, the part would still give the right result, so that nothing but the one
missing check lets it through. Sections are those of docs/patch-format.md.
"""

import xxhash
from checkpoint import Checkpoint
from must_decode import PLAIN_STEPS, noise, padded_frame, plain, stepped
from patch_writer import (
    RAW, changes_at, direct_fields, planes, string, u16, u32, u64, varint,
)  # fmt: skip
from wire import FRAME_MAGIC, stored_blocks, stored_frame

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


IN_HEADER = [  # §2
    ("empty", "no bytes at all", whole(lambda data: b"")),
    ("header-cut", "127 bytes", whole(lambda data: data[:127])),
    ("header-alone", "the tables are missing", whole(lambda data: data[:128])),
    ("tables-cut", "ends within the tables", whole(lambda data: data[:200])),
    ("payloads-cut", "the last byte is missing", whole(lambda data: data[:-1])),
    ("byte-after-the-end", "one byte more than the header says", whole(lambda data: data + b"\0")),
    ("sizes-wrap", "a sum of sizes that is right modulo 2^64", sizes_that_wrap),
    ("magic", "another magic", header(magic=b"ISTHMUS\x02")),
    ("major-0", "major version 0", header(major_version=u16(0)), "newer"),
    ("major-2", "major version 2", header(major_version=u16(2)), "newer"),
    ("flag-1", "an unknown flag, bit 1", header(flags=u32(3))),
    ("flag-31", "an unknown flag, bit 31", header(flags=u32(2**31 + 1))),
    ("base-not-stated", "base, but no flag", header(flags=u32(0), target=bytes(32))),
    ("target-not-stated", "target, but no flag", header(flags=u32(0), base=bytes(32))),
    ("reserved", "reserved bytes that are not zero", header(reserved=bytes(7) + b"\1")),
    ("digest", "another digest of header and tables", header(digest=noise("digest", 16))),
    ("digest-little-endian", "the digest's bytes in reverse", little_endian_digest),
    ("tensor-count-2-22", "tensor_count 2^22 + 1", header(tensor_count=u32(2**22 + 1))),
    ("tensor-count-huge", "tensor_count 2^32 - 1", header(tensor_count=u32(2**32 - 1))),
    ("tensor-count-one-more", "more tensors than entries", header(tensor_count=u32(6))),
    ("tensor-count-most", "2^22 tensors, 5 entries", header(tensor_count=u32(2**22))),
    ("tensor-count-one-less", "an entry that is not counted", header(tensor_count=u32(4))),
    ("file-count-2-16", "file_count 2^16 + 1", header(file_count=u32(2**16 + 1))),
    ("file-count-huge", "file_count 2^32 - 1", header(file_count=u32(2**32 - 1))),
    ("file-count-one-more", "more files than entries", header(file_count=u32(5))),
    ("file-count-one-less", "bytes after the last entry", header(file_count=u32(3))),
    ("payload-bytes-2-46", "payload_bytes 2^46 + 1", header(payload_bytes=u64(2**46 + 1))),
    ("payload-bytes-huge", "payload_bytes 2^64 - 1", header(payload_bytes=u64(2**64 - 1))),
]

IN_TABLES_FRAME = [  # §2
    ("tables-raw-huge", "2^32 - 1 bytes of tables, header and frame agree",
     all_of(header(tables_raw_bytes=u32(2**32 - 1)),
            tables_frame(lambda raw: stored_frame(raw, 2**32 - 1)))),
    ("tables-raw-2-28", "2^28 + 1 bytes of tables, header and frame agree",
     all_of(header(tables_raw_bytes=u32(2**28 + 1)),
            tables_frame(lambda raw: stored_frame(raw, 2**28 + 1)))),
    ("tables-raw-most", "2^28 bytes of tables declared, the frame holds fewer",
     all_of(header(tables_raw_bytes=u32(2**28)),
            tables_frame(lambda raw: stored_frame(raw, 2**28)))),
    ("tables-raw-other", "tables_raw_bytes is not what the frame declares",
     header(tables_raw_bytes=u32(1000))),
    ("tables-frame-empty", "no frame", header(tables=b"")),
    ("tables-frame-no-frame", "no zstd magic", tables_frame(lambda raw: raw)),
    ("tables-frame-no-size", "no content size", tables_frame(without_content_size)),
    ("tables-frame-declares-more", "content size one too large",
     tables_frame(lambda raw: stored_frame(raw, len(raw) + 1))),
    ("tables-frame-holds-less", "content one byte short of its declared size",
     tables_frame(lambda raw: stored_frame(raw[:-1], len(raw)))),
    ("tables-frame-bomb", "declares 10 bytes, holds 8 MiB",
     all_of(header(tables_raw_bytes=u32(10)),
            tables_frame(lambda raw: stored_frame(bytes(2**23), 10)))),
    ("tables-frame-cut", "the frame lacks its last byte",
     tables_frame(lambda raw: stored_frame(raw)[:-1])),
    ("tables-frame-byte-after", "a byte after the frame",
     tables_frame(lambda raw: stored_frame(raw) + b"\0")),
    ("tables-frame-two", "two frames that hold the tables together",
     tables_frame(lambda raw: stored_frame(raw[:50]) + stored_frame(raw[50:]))),
    ("tables-frame-empty-one-after", "an empty frame after the frame",
     tables_frame(lambda raw: stored_frame(raw) + stored_frame(b""))),
    ("tables-frame-skippable-before", "a skippable frame before the frame",
     tables_frame(lambda raw: SKIPPABLE_FRAME + stored_frame(raw))),
    ("tables-frame-skippable-after", "a skippable frame after the frame",
     tables_frame(lambda raw: stored_frame(raw) + SKIPPABLE_FRAME)),
    ("tables-frame-checksum", "wrong checksum of the content", tables_frame(wrong_checksum)),
    ("tables-frame-dictionary", "asks for a dictionary", tables_frame(with_dictionary)),
]  # fmt: skip

IN_TENSOR_ENTRIES = [  # §2.1 and the introduction
    ("tables-end-in-entry", "the last entry lacks a byte", raw_tables(lambda raw: raw[:-1])),
    ("tables-byte-after", "a byte after the last entry", raw_tables(lambda raw: raw + b"\0")),
    ("varint-not-shortest", "rank 1 in two bytes", tensor(BIAS, rank=b"\x81\0")),
    ("varint-zero-not-shortest", "first_chunk 0 in two bytes", tensor(BIAS, first_chunk=b"\x80\0")),
    ("varint-11-bytes", "changed in 11 bytes", tensor(BIAS, changed=b"\x84" + b"\x80" * 9 + b"\0")),
    ("varint-65-bits", "changed 2^64 + 4: 4 modulo 2^64",
     tensor(BIAS, changed=b"\x84" + b"\x80" * 8 + b"\2")),
    ("names-descend", "tensors in another order", swap_first_tensors),
    ("name-twice", "the same name again", tensor(EMBED, shared=varint(5), suffix=string(b""))),
    ("name-empty", "a name of no bytes", tensor(CODES, suffix=string(b""))),
    ("name-too-long", "a name of 4097 bytes", attribute("tensors", WIDE, "name", b"w" * 4097)),
    ("name-past-the-end", "a suffix of 2^63 bytes", tensor(BIAS, suffix=varint(2**63))),
    ("shared-too-large", "shares 6 bytes of codes", tensor(EMBED, shared=varint(6))),
    ("shared-huge", "shares 2^64 - 1 bytes", tensor(EMBED, shared=varint(2**64 - 1))),
    ("shared-in-first-entry", "nothing to share with", tensor(CODES, shared=varint(1))),
    ("dtype-0", "dtype 0", tensor(BIAS, dtype=b"\0")),
    ("dtype-23", "dtype 23", tensor(BIAS, dtype=b"\x17")),
    ("dtype-255", "dtype 255", tensor(BIAS, dtype=b"\xff")),
    ("rank-33", "33 dimensions", tensor(BIAS, rank=varint(33), dims=b"\1" * 32 + b"\x28")),
    ("rank-huge", "2^64 - 1 dimensions", tensor(BIAS, rank=varint(2**64 - 1))),
    ("dims-2-63-bits", "2^63 bits", tensor(BIAS, dims=varint(2**60))),
    ("dims-wrap-bits", "2^61 + 40 bytes: 320 bits modulo 2^64",
     tensor(BIAS, dims=varint(2**61 + 40))),
    ("dims-wrap-product", "2^32 × 2^32 elements: 0 modulo 2^64",
     tensor(BIAS, rank=varint(2), dims=varint(2**32) * 2)),
    ("dims-half-a-byte", "F4 [3, 5]", tensor(CODES, dims=varint(3) + varint(5))),
    ("dims-zero", "an entry of a tensor without elements", tensor(BIAS, dims=varint(0))),
    ("encoding-3", "encoding 3 (context)", tensor(BIAS, encoding=b"\3"), "newer"),
    ("encoding-200", "encoding 200", tensor(BIAS, encoding=b"\xc8"), "newer"),
    ("chunk-count-0", "no chunk", tensor(BIAS, chunk_count=varint(0), chunks=b"")),
    ("chunk-count-2", "two chunks, the tensor has one",
     tensor(BIAS, chunk_count=varint(2), chunks=varint(0) * 2)),
    ("chunk-count-huge", "2^64 - 1 chunks", tensor(BIAS, chunk_count=varint(2**64 - 1))),
    ("chunk-count-unbacked", "2^39 chunks that the tensor has and the tables have not",
     tensor(BIAS, dims=varint(2**59), chunk_count=varint(2**39))),
    ("first-chunk-1", "chunk 1 of one", tensor(BIAS, first_chunk=varint(1))),
    ("chunks-wrap", "first_chunk 2^64 - 1, two chunks: 1 modulo 2^64",
     tensor(BIAS, first_chunk=varint(2**64 - 1), chunk_count=varint(2), chunks=varint(0) * 2)),
    ("changed-0", "changed 0", tensor(BIAS, changed=varint(0))),
    ("changed-41", "41 of 40 units changed", tensor(BIAS, changed=varint(41))),
    ("changed-counts-elements", "13 of 12 units of a 64-bit tensor", tensor(WIDE, changed=b"\x0d")),
    ("chunk-too-large", "a payload of 40 + 1025 bytes", payload_too_large),
    ("chunk-huge", "a payload of 2^63 bytes", tensor(BIAS, chunks=varint(2**63) + bytes(8))),
]  # fmt: skip

IN_FILE_ENTRIES = [  # §2.1
    ("path-empty", "an empty path", path(b"", CONFIG)),
    ("path-absolute", "an absolute path", path(b"/extra/notes.txt", CONFIG)),
    ("path-dotdot", "leaves the checkpoint", path(b"../notes.txt", CONFIG)),
    ("path-dotdot-within", "a .. in the middle", path(b"extra/../notes.txt")),
    ("path-dot", "a segment .", path(b"extra/./notes.txt")),
    ("path-hidden", "a hidden file", path(b"extra/.notes")),
    ("path-hidden-on-top", "a hidden file", path(b".config.json", CONFIG)),
    ("path-hidden-folder", "a hidden folder", path(b"extra/.git/config")),
    ("path-empty-segment", "an empty segment", path(b"extra//notes.txt")),
    ("path-ends-in-slash", "an empty last segment", path(b"extra/")),
    ("path-too-long", "4097 bytes", path(b"extra/" + b"n" * 4091)),
    ("files-descend", "files in another order", reverse_first_files),
    ("file-twice", "the same path and kind again", duplicate_file),
    ("file-kind-3", "kind 3", file(NOTES, kind=b"\3")),
    ("file-raw-2-28", "2^28 + 1 bytes, the frame agrees",
     file(NOTES, raw_bytes=varint(2**28 + 1), payload=stored_frame(b"new\n", 2**28 + 1))),
    ("file-raw-huge", "2^64 - 1 bytes", file(NOTES, raw_bytes=varint(2**64 - 1))),
    ("payloads-one-less", "payloads add up to less", file(NOTES, bytes=varint(12))),
    ("payloads-one-more", "payloads add up to more", file(NOTES, bytes=varint(14))),
    ("payloads-wrap", "payloads add up modulo 2^64", payload_sizes_that_wrap),
]  # fmt: skip

IN_PAYLOADS = [  # §3, §2
    ("chunk-digest", "another digest of a payload", wrong_chunk_digest),
    ("chunk-digest-big-endian", "the digest's bytes in reverse", chunk_digest_big_endian),
    ("raw-short", "7 of 8 bytes", frame_of(CODES, lambda data: stored_frame(data[:7]))),
    ("raw-long", "9 of 8 bytes", frame_of(CODES, lambda data: stored_frame(data + b"\0"))),
    ("raw-no-size", "no content size", frame_of(CODES, without_content_size)),
    ("raw-two-frames", "two frames that hold the content together",
     frame_of(CODES, lambda data: stored_frame(data[:4]) + stored_frame(data[4:]))),
    ("raw-empty-frame-after", "an empty frame after it",
     frame_of(CODES, lambda data: stored_frame(data) + stored_frame(b""))),
    ("raw-byte-after", "a byte after it", frame_of(CODES, lambda data: stored_frame(data) + b"\0")),
    ("raw-no-frame", "no frame", frame_of(CODES, lambda data: data)),
    ("xor-short", "47 of 48 bytes", frame_of(EMBED, lambda data: stored_frame(data[:-1]))),
    ("xor-long", "49 of 48 bytes", frame_of(EMBED, lambda data: stored_frame(data + b"\0"))),
    ("xor-bomb", "declares 48 bytes, holds 8 MiB", payload(EMBED, stored_frame(bytes(2**23), 48))),
    ("xor-byte-after", "a byte after it", frame_of(EMBED, lambda data: stored_frame(data) + b"\0")),
    ("direct-count-0", "no change", no_change),
    ("direct-count-41", "41 changes of 40 units",
     direct(BIAS, lambda changes: [(0, d) for _, d in (11 * changes)[:41]])),
    ("direct-count-huge", "2^64 - 1 changes of one symbol",
     field(count=lambda _: varint(2**64 - 1), gaps=lambda _: b"\2\0", steps=lambda _: b"\2\0")),
    ("direct-count-cut", "ends within count", payload(BIAS, b"\x83")),
    ("direct-count-alone", "ends after count", payload(BIAS, b"\3")),
    ("direct-no-steps", "ends after the gaps", field(steps=lambda _: b"", extra=lambda _: b"")),
    ("gaps-mode-3", "mode 3", field(gaps=lambda data: b"\3" + data[1:])),
    ("steps-mode-3", "mode 3", field(steps=lambda data: b"\3" + stored_content(data))),
    ("steps-mode-255", "mode 255", field(steps=lambda data: b"\xff" + data[1:])),
    ("symbols-0-cut", "fewer symbols than changes",
     field(steps=lambda data: b"\0" + stored_content(data)[:3], extra=lambda _: b"")),
    ("symbols-2-cut", "no symbol", field(steps=lambda _: b"\2", extra=lambda _: b"")),
    ("symbols-1-past-the-end", "a frame of 2^63 bytes",
     field(steps=lambda data: b"\1" + varint(2**63) + data[2:])),
    ("symbols-1-more", "a frame of five symbols for four changes",
     field(steps=mode_1(lambda content: stored_frame(content + b"\0")))),
    ("symbols-1-fewer", "a frame of three symbols for four changes",
     field(steps=mode_1(lambda content: stored_frame(content[:3])))),
    ("symbols-1-no-size", "no content size", field(gaps=mode_1(without_content_size))),
    ("symbols-1-byte-after", "a byte between the frame's end and its size",
     field(gaps=mode_1(lambda content: stored_frame(content) + b"\0"))),
    ("gap-past-the-end", "position 40 of 40", direct(BIAS, lambda changes: changes + [(0, 1)])),
    ("gap-wraps-32-bits", "a gap of 2^32 - 1", split_first(2**32 - 1)),
    ("gap-wraps-64-bits", "a gap of 2^64 - 1", split_first(2**64 - 1)),
    ("gap-65-bits", "symbol 255, 62 extra bits", split_first(7 << 62)),
    ("step-8-bits-up", "+2^7 of 1 byte", other_step(BIAS, 2**7)),
    ("step-8-bits-down", "-2^7 - 1 of 1 byte", other_step(BIAS, -(2**7) - 1)),
    ("step-16-bits-up", "+2^15 of 2 bytes", other_step(WEIGHT, 2**15)),
    ("step-16-bits-down", "-2^15 - 1 of 2 bytes", other_step(WEIGHT, -(2**15) - 1)),
    ("step-32-bits-up", "+2^31 of 4 bytes", other_step(WIDE, 2**31)),
    ("step-32-bits-down", "-2^31 - 1 of 4 bytes", other_step(WIDE, -(2**31) - 1)),
    ("step-wraps-8-bits", "+2^8 + 9 of 1 byte", other_step(BIAS, 2**8 + 9)),
    ("step-wraps-16-bits", "+2^16 + 1 of 2 bytes", other_step(WEIGHT, 2**16 + 1)),
    ("step-wraps-32-bits", "+2^32 + 70000 of 4 bytes", other_step(WIDE, 2**32 + 70000)),
    ("step-symbol-255", "the largest symbol", direct(WIDE, lambda _: [(0, -(7 << 30) - 1)])),
    ("extra-missing", "extra bits wanted, none there", field(extra=lambda _: b"")),
    ("extra-cut", "a byte of extra bits is missing", field(extra=lambda data: data[:-1])),
    ("extra-unused-bit", "the highest unused bit is 1",
     field(extra=lambda data: data[:-1] + bytes([data[-1] | 0x80]))),
    ("extra-byte-after", "a zero byte too many", field(extra=lambda data: data + b"\0")),
    ("extra-byte-not-wanted", "no extra bits, one zero byte",
     direct(WEIGHT, lambda _: [(1, 1)], extra=lambda _: b"\0")),
    ("file-digest", "another SHA-256", file(NOTES, sha256=noise("file", 32))),
    ("file-raw-other", "raw_bytes is not what the frame declares", file(NOTES, raw_bytes=b"\5")),
    ("file-no-payload", "a payload of no bytes", note(lambda data: b"")),
    ("file-no-size", "no content size", note(without_content_size)),
    ("file-two-frames", "two frames that hold the content together",
     note(lambda data: stored_frame(data[:2]) + stored_frame(data[2:]))),
    ("file-empty-frame-after", "an empty frame after it",
     note(lambda data: stored_frame(data) + stored_frame(b""))),
    ("file-byte-after", "a byte after it", note(lambda data: stored_frame(data) + b"\0")),
    ("payload-bit", "one bit of the last payload", wrong_payload),
]  # fmt: skip

WITH_BASE = [  # §2.1 (kind 2), §4
    ("base-lacks-tensor", "a tensor of another name", attribute("tensors", BIAS, "name", b"f")),
    ("base-other-dtype", "I8, the base has U8", attribute("tensors", BIAS, "dtype", 6)),
    ("base-other-shape", "[5, 8], the base has [40]", attribute("tensors", BIAS, "dims", (5, 8))),
    ("old-digest", "the base holds other bytes",
     attribute("tensors", BIAS, "old_digest", noise("old", 16))),
    ("new-digest", "the result holds other bytes", wrong_new_digest),
    ("new-digest-after-steps", "other steps, the target is right", half_steps),
    ("target", "the result is another version", wrong_target),
    ("header-longer", "eight bytes longer", longer_header),
    ("header-other-name", "renames a tensor", header_with(b"layer.bias", b"layer.bios")),
    ("header-other-dtype", "I8 becomes U8", header_with(b'"U8"', b'"I8"')),
    ("header-other-shape", "[4,3] becomes [3,4]", header_with(b"[4,3]", b"[3,4]")),
    ("header-of-no-shard", "there is no such shard", header_of_no_shard),
    ("header-no-json", "the header is no JSON", header_no_json),
]  # fmt: skip

BINS = (
    (IN_HEADER, "read"), (IN_TABLES_FRAME, "read"), (IN_TENSOR_ENTRIES, "read"),
    (IN_FILE_ENTRIES, "read"), (IN_PAYLOADS, "apply"), (WITH_BASE, "apply"),
)  # fmt: skip


def vectors():
    """verdict: reason, why, base, and stage: "read" if the part alone is refused, else "apply"."""
    out = {}
    for rows, stage in BINS:
        for name, why, forge, *reason in rows:
            part = plain()[2]
            data = forge(part)
            data = part.write() if data is None else data
            reason = reason[0] if reason else "corrupt"
            base = "must-decode/plain/base"
            assert name not in out, name
            out[name] = (data, {"reason": reason, "why": why, "stage": stage, "base": base})
    return out
