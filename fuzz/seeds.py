#!/usr/bin/env python3
"""Cuts the golden vectors into first inputs for the fuzz targets: seeds.py DEST.

Writes DEST/TARGET/NAME; what an input of a target is, its source says. Deterministic.
"""

import json
import pathlib
import random
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "oracle"))

import models  # noqa: E402
import patch_oracle  # noqa: E402
from checkpoint import INDEX, Checkpoint  # noqa: E402
from golden import GOLDEN, must_decode, must_fail, read_tree  # noqa: E402
from layout import chunks_of, unit_bytes  # noqa: E402
from wire import Refused  # noqa: E402

MAX_BYTES = 64 * 1024  # what the targets run with
MAX_UNITS = 2**17  # of a chunk, for speed
ENCODINGS = ("raw", "xor", "direct", "context")
SHA256 = "sha256:" + "0123456789abcdef" * 4


def read_model(tables):
    """A model that keeps its bytes."""
    begin = tables.at
    model = models.read_model(tables)
    model.stored = tables.data[begin : tables.at]
    return model


patch_oracle.read_model = read_model


def golden_parts():
    """(name, bytes, the directory of its base)"""
    for vector in must_decode():
        yield vector.name, (vector / "patch.part").read_bytes(), vector / "base"
    for name, verdict in must_fail().items():
        data = (GOLDEN / "must-fail" / f"{name}.part").read_bytes()
        yield name, data, GOLDEN / verdict["base"]


def old_bytes(base, chunk):
    pieces = []
    for piece in chunk.pieces:
        tensor, w = base.tensors[piece.name], unit_bytes(chunk.dtype)
        data = base.data(tensor)
        pieces.append(data[piece.first * w : (piece.first + piece.units) * w])
    return b"".join(pieces)


def pattern_of(data):
    """The shortest of some beginnings of `data` that it repeats; all of it at the worst."""
    for size in (1, 2, 4, 8, 64, 4096):
        if (data[:size] * (len(data) // size + 1))[: len(data)] == data:
            return data[:size]
    return data


def chunk_input(entry, chunk, old):
    """The input of fuzz/chunk_payload.h; None if it would be too large."""
    units, shift = chunk.units(), 0
    while units > 2**16:
        units, shift = units // 2, shift + 1
    pattern = pattern_of(old)
    if units << shift != chunk.units() or units << shift > MAX_UNITS or len(pattern) >= 2**16:
        return None
    model = entry.model.stored if entry.model else b""
    head = bytes([chunk.dtype - 1, 0]) + (units % 2**16).to_bytes(2, "little") + bytes([shift, 1])
    return head + len(pattern).to_bytes(2, "little") + model + entry.payload + pattern


def activity_input(entry, elements):
    """u32 elements - 1, and the payload's stream without its first zero bits."""
    stream = int.from_bytes(entry.payload[1:], "little") >> (entry.payload[0] & 7)
    return (elements - 1).to_bytes(4, "little") + stream.to_bytes(len(entry.payload), "little")


def chunk_seeds(data, base):
    """(target, input) for the chunks of a part."""
    chunks = chunks_of(base.tensors)
    for entry in patch_oracle.read_part(data).chunks:
        if entry.number >= len(chunks):
            continue
        chunk = chunks[entry.number]
        seed = chunk_input(entry, chunk, old_bytes(base, chunk))
        if seed:
            yield ENCODINGS[entry.encoding], seed
        if entry.model and entry.payload[0] & 8:
            elements = chunk.bytes() * 2 if entry.model.elements else chunk.units()
            yield "activity", activity_input(entry, elements)


def part_seeds():
    for _, data, directory in golden_parts():
        yield "part", data
        yield "chain", data
        try:
            part = patch_oracle.read_part(data)
        except Refused:
            continue
        for model in part.models:
            yield "model", model.stored
        yield from chunk_seeds(data, Checkpoint(read_tree(directory)))


def checkpoint_seeds():
    for vector in must_decode():
        base = Checkpoint(read_tree(vector / "base"))
        yield "version_table", base.version_table()
        for file, header in base.shards.items():
            yield "safetensors", len(base.files[file]).to_bytes(8, "little") + header
        if INDEX in base.files:
            yield "weight_map", base.files[INDEX]


def manifest():
    """As in docs/board.md."""
    part = {"key": "runs/r/data/2/a/0.part", "bytes": 100, "sha256": SHA256}
    anchor = part | {"path": "model.safetensors"}
    return {
        "format": 1, "run": "r", "version": 2, "parent": 1, "epoch": 1, "step": -3,
        "view": {"id": "bf16"}, "digest": SHA256, "tensors": 3, "elements": 2**40, "changed": 7,
        "checkpoint_bytes": 2**41,
        "payloads": [{"kind": "patch", "base": 1, "encoding": "direct+raw", "parts": [part]},
                     {"kind": "anchor", "parts": [anchor]}],
        "files": {"config.json": SHA256}, "meta": {"reward": "0.71"},
        "created_at": "2026-01-31T09:30:00.250Z", "producer": "isthmus 0.1.0",
    }  # fmt: skip


def json_seeds():
    first = {key: value for key, value in manifest().items() if key != "step"} | {
        "version": 1, "parent": None, "payloads": manifest()["payloads"][1:], "files": {}, "meta": {},
    }  # fmt: skip
    fork = first | {"run": "n", "fork": {"run": "r", "version": 2}}
    uuid = "00000000-0000-4000-8000-000000000000"
    objects = [
        {"format": 1, "board": uuid},
        {"format": 1, "run": "r", "view": {"id": "bf16"}, "created_at": "2026-01-31T09:30:00.250Z"},
        {"format": 1, "version": 1},
        {"format": 1, "run": "r", "epoch": 1, "id": "previous", "opened_at": uuid},
    ]
    for value in (manifest(), first, fork):
        yield "manifest", json.dumps(value).encode()
    for value in (*objects, first):
        yield "board_json", json.dumps(value).encode()


def rank_message_seeds():
    """As fuzz/rank_messages.cc tells them apart by their first byte."""
    held = {"name": "a", "dtype": "BF16", "shape": [4, 8], "first_row": 1, "rows": 3}
    leaf = "0123456789abcdef" * 2
    chunks = [{"number": 0, "before": leaf, "changed": 3, "after": leaf},
              {"number": 1, "before": leaf}]
    refusal = {"format": 1, "code": "invalid", "reason": "rank 1 holds too much", "baselines": 0}
    messages = (
        {"version": 2, "attempt": "0123456789abcdef", "step": -3, "ranks": 3, "outline": SHA256},
        {"tensors": [held, held | {"name": "b", "dtype": "F4", "shape": [3, 3, 2]}]},
        {"holdings": [0, 0, 0, 16, 1, 0, 16, 16, 2, 1, 0, 9]},
        {"owners": [{"rank": 2, "bytes": 100, "sha256": SHA256}]},
        {"plan": SHA256, "chunks": chunks, "payload": manifest()["payloads"][0]},
        refusal,
        {"refused": refusal},
        {"digest": SHA256},
    )
    for kind, message in enumerate(messages):
        yield "rank_messages", bytes([min(kind, 6)]) + json.dumps({"format": 1} | message).encode()


def store_answer_seeds():
    """As fuzz/store_answers.cc tells them apart by their first byte."""
    listing = ("<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
               "<IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;b</NextContinuationToken>"
               "<Contents><Key>runs/r&#47;1</Key></Contents></ListBucketResult>")
    error = "<Error><Code>NoSuchKey</Code><Message>no</Message><Region>eu-west-1</Region></Error>"
    credentials = {"AccessKeyId": "A", "SecretAccessKey": "S", "Token": "T",
                   "Expiration": "2026-01-31T09:30:00Z"}
    profile = "[default]\nregion = r\n# comment\n[profile x]\ns3 =\n  a = b\naws_access_key_id=A\n"
    for kind, text in enumerate((listing, json.dumps(credentials), profile, "bytes 0-9/10",
                                 "https://[::1]:443/a/b", error)):
        yield "store_answers", bytes([kind]) + text.encode()


def request_body_seeds():
    constraint = {"min_version": 41, "exact_version": None}
    prompt = {"model": "m", "prompt": [1, 2], "logprobs": 1, "temperature": 1e300}
    for value in (
        prompt,
        {"weight_version": constraint} | prompt | {"stream": True, "cache_salt": "\u00e9"},
        {"messages": [{"role": "user", "content": "{\"stream\":"}], "weight_version": constraint},
    ):
        yield "request_body", json.dumps(value).encode()
        yield "request_body", json.dumps(value, indent=1).encode()


def answers():
    """Of both shapes, and events of streams."""
    logprobs = {"tokens": ["a", "b"], "content": [{"token_id": 1}, {"token_id": 2}]}
    choice = {"index": 0, "text": "ab", "token_ids": [1, 2], "logprobs": logprobs}
    delta = {"index": 1, "delta": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
    record = {"text": "}\"", "index": 2, "meta_info": {"id": "x", "completion_tokens": 3}}
    yield {"id": "c", "choices": [choice, delta], "usage": {"completion_tokens": 2}}
    yield {"choices": [choice | {"token_ids": None}]}
    yield record
    yield [record, {"meta_info": {}}]
    yield {}


def streams():
    """Of chats, and of records that come whole and in pieces."""
    chat = {"index": 0, "delta": {"role": "assistant", "content": "a"}, "finish_reason": None}
    call = {"index": 0, "function": {"arguments": "{"}}
    last = {"index": 0, "delta": {"content": "b", "tool_calls": [call]}, "finish_reason": "stop"}
    yield [{"choices": [chat]}, {"choices": [last]}, {"choices": [], "usage": {}}]
    for pieces in (False, True):
        yield [{"text": "a" * (1 if pieces else end), "index": 0,
                "output_ids": list(range(0 if not pieces else end - 1, end)),
                "meta_info": {"completion_tokens": end, "output_token_logprobs": [[-1.5, end, None]],
                              "finish_reason": {"type": "stop"} if end == 3 else None}}
               for end in (1, 2, 3)]
    yield [{"type": "message_start"}, {"error": {"message": "x"}}, {"type": "message_stop"}]


def http_seeds():
    """As fuzz/http.cc, fuzz/answer_stamp.cc, fuzz/events.cc and fuzz/rollouts.cc say."""
    for stream in streams():
        events = "".join(f"data: {json.dumps(event)}\n\n" for event in stream)
        for step in (0, 100):
            yield "rollouts", bytes([step]) + f"{events}data: [DONE]\n\n".encode()
    texts = [json.dumps(answer) for answer in answers()]
    for text in texts:
        for step in (0, 2, 255):
            yield "answer_stamp", bytes([step]) + text.encode()
        yield "rollouts", b"\xff" + text.encode()
        yield "events", f"event: e\nid: 1\ndata: {text}\n\n".encode()
    stream = "".join(f"data: {text}\r\n\r\n" for text in texts)
    yield "events", f"\ufeff: hello\n\n{stream}data: [DONE]\n\n".encode()
    chunks = "5;a=b\r\nhello\r\n0\r\nX-T: 1\r\n\r\nGET"
    requests = [
        "GET /v1/x?y=%20 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcNEXT",
        f"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}",
    ]
    responses = [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.0 404 Not Found\r\n\r\nuntil the end",
        f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}",
    ]
    for kinds, messages in ((b"\0", requests), (b"\1\2", responses)):
        for kind in kinds:
            for message in messages:
                yield "http", bytes([kind, 6]) + message.encode()


def drawn_seeds():
    """What a target without golden vectors begins with."""
    draw = random.Random(1)
    for size in range(8, 264, 4):
        yield "round_trip", draw.randbytes(size)


def main(dest):
    shutil.rmtree(dest, ignore_errors=True)
    found = [*part_seeds(), *checkpoint_seeds(), *json_seeds()]
    found += [*rank_message_seeds(), *store_answer_seeds(), *request_body_seeds(), *http_seeds(), *drawn_seeds()]
    for number, (target, data) in enumerate(found):
        if len(data) > MAX_BYTES:
            continue
        (dest / target).mkdir(parents=True, exist_ok=True)
        (dest / target / f"{number:04}").write_bytes(data)
    counts = {target: len(list((dest / target).iterdir())) for target in {name for name, _ in found}}
    print("seeds:", ", ".join(f"{count} {target}" for target, count in sorted(counts.items())))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
