"""What the tests' Python reads and writes on the byte level: integers, strings, zstd frames.

Integers and strings are those of docs/patch-format.md, frames those of RFC 8878.
"""

import re

import zstandard

FRAME_MAGIC = bytes.fromhex("28b52ffd")


class Refused(Exception):
    """A part that must not be used. reason: "corrupt", or "newer" (format or encoding)."""

    def __init__(self, reason, message):
        super().__init__(f"{reason}: {message}")
        self.reason = reason


def check(condition, message, reason="corrupt"):
    if not condition:
        raise Refused(reason, message)


class Reader:
    """Takes fields off the front of some bytes; Refused where they end too early."""

    def __init__(self, data, what):
        self.data, self.what, self.at = data, what, 0

    def left(self):
        return len(self.data) - self.at

    def take(self, size):
        check(size <= self.left(), f"{self.what}: {size} bytes wanted, {self.left()} left")
        self.at += size
        return self.data[self.at - size : self.at]

    def u8(self):
        return self.take(1)[0]

    def u32(self):
        return int.from_bytes(self.take(4), "little")

    def u64(self):
        return int.from_bytes(self.take(8), "little")

    def varint(self):
        value = 0
        for i in range(10):
            byte = self.u8()
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                check(byte > 0 or i == 0, f"{self.what}: a varint is not in its shortest form")
                check(value < 2**64, f"{self.what}: a varint has more than 64 bits")
                return value
        raise Refused("corrupt", f"{self.what}: a varint has more than 10 bytes")

    def string(self):
        return self.take(self.varint())


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def string(value):
    return varint(len(value)) + value


def frame_sizes(data, what):
    """(content size or None, stored size) of the zstd frame at the start, as its headers say."""
    frame = Reader(data, f"{what}: zstd frame")
    check(frame.take(4) == FRAME_MAGIC, f"{what}: not a zstd frame")
    descriptor = frame.u8()
    single_segment = descriptor >> 5 & 1
    frame.take(1 - single_segment)  # window descriptor
    frame.take((0, 1, 2, 4)[descriptor & 3])  # dictionary id
    size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
    content = int.from_bytes(frame.take(size_bytes), "little") + (256 if size_bytes == 2 else 0)
    last = False
    while not last:
        block = int.from_bytes(frame.take(3), "little")
        last, is_run, size = block & 1, block >> 1 & 3 == 1, block >> 3
        frame.take(1 if is_run else size)
    frame.take(4 if descriptor & 4 else 0)  # checksum
    return (content if size_bytes else None), frame.at


def decompress(data, size, what):
    """The content of the one zstd frame that `data` is; `size` is what it must declare."""
    declared, stored = frame_sizes(data, what)
    check(declared is not None, f"{what}: the zstd frame does not declare its content size")
    check(declared == size, f"{what}: the zstd frame declares {declared} bytes, not {size}")
    check(stored == len(data), f"{what}: {len(data) - stored} bytes follow the zstd frame")
    try:
        content = zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
    except zstandard.ZstdError as error:
        raise Refused("corrupt", f"{what}: {error}") from error
    check(len(content) == size, f"{what}: {len(content)} bytes of content, not {size}")
    return content


def stored_frame(content, declared=None):
    """A zstd frame of uncompressed blocks and runs: the same bytes whatever the zstd library.

    declared: another content size than the true one, for forgeries.
    """
    declared = len(content) if declared is None else declared
    if declared < 256:
        head = b"\x20" + declared.to_bytes(1, "little")
    elif declared < 256 + 65536:
        head = b"\x60" + (declared - 256).to_bytes(2, "little")
    else:
        head = b"\xa0" + declared.to_bytes(4, "little")
    return FRAME_MAGIC + head + stored_blocks(content)


def stored_blocks(content):
    blocks = [(is_run, data) for is_run, piece in pieces(content) for data in cut(piece)]
    out = []
    for number, (is_run, data) in enumerate(blocks, start=1):
        block = (number == len(blocks)) | is_run << 1 | len(data) << 3
        out += [block.to_bytes(3, "little"), data[:1] if is_run else data]
    return b"".join(out)


def pieces(content):
    """(is a run of one byte, bytes) that make up the content; at least one."""
    at = 0
    for run in re.finditer(rb"(.)\1{63,}", content, re.DOTALL):
        if run.start() > at:
            yield False, content[at : run.start()]
        yield True, run.group()
        at = run.end()
    if at < len(content) or not content:
        yield False, content[at:]


def cut(piece, block_bytes=128 * 1024):
    return [piece[at : at + block_bytes] for at in range(0, len(piece), block_bytes)] or [b""]


def library_frame(content):
    """A frame as the zstd library makes it: its bytes depend on the library's version."""
    return zstandard.ZstdCompressor(level=19, write_content_size=True).compress(content)
