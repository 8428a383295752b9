#!/usr/bin/env python3
"""Writes the C++ source that holds the dashboard's files: embed_assets.py OUTPUT FILE...

index.html is served at /, every other file at /dashboard/NAME; the contract is
isthmus/gateway/assets.h. The same files give the same source.
"""

import gzip
import hashlib
import pathlib
import sys

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
HEAD = """// Made by scripts/embed_assets.py.
#include "isthmus/gateway/assets.h"

#include <array>

namespace isthmus::gateway {
namespace {

using std::string_view_literals::operator""sv;

"""
TAIL = """
}  // namespace

std::optional<Asset> FindAsset(std::string_view path) {
  for (const Asset& asset : kAssets) {
    if (asset.path == path) return asset;
  }
  return std::nullopt;
}

std::span<const Asset> AllAssets() { return kAssets; }

}  // namespace isthmus::gateway
"""


def literal(data):
    """A C++ string literal of bytes, in lines."""
    plain = bytes(range(0x20, 0x7F)).replace(b'"', b"").replace(b"\\", b"").replace(b"?", b"")
    escaped = [chr(byte) if byte in plain else f"\\{byte:03o}" for byte in data]
    lines = ["".join(escaped[at:at + 100]) for at in range(0, len(escaped), 100)] or [""]
    return "\n".join(f'    "{line}"' for line in lines) + "sv"


def etag(data):
    return f'"\\"{hashlib.sha256(data).hexdigest()[:32]}\\""'


def asset(file):
    """The initialiser of one Asset."""
    data = file.read_bytes()
    packed = gzip.compress(data, 9, mtime=0)
    if len(packed) >= len(data):
        packed = b""
    path = "/" if file.name == "index.html" else f"/dashboard/{file.name}"
    return (f'    Asset{{"{path}", "{TYPES[file.suffix]}", {etag(data)},\n{literal(data)},\n'
            f'{literal(packed)},\n    {etag(packed) if packed else str(chr(34) * 2)}}},\n')


def main():
    output, *files = map(pathlib.Path, sys.argv[1:])
    assets = "".join(asset(file) for file in sorted(files, key=lambda file: file.name))
    array = f"constexpr std::array<Asset, {len(files)}> kAssets = {{\n{assets}}};\n"
    output.write_text(HEAD + array + TAIL, encoding="ascii")


if __name__ == "__main__":
    main()
