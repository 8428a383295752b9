#include "isthmus/board/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

#include "tests/support/errors.h"

namespace isthmus::board {
namespace {

using testing::ExpectError;

constexpr char kSha[] = "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

// A patch and, below it, an anchor: what docs/board.md shows, byte for byte as Serialize writes it.
const std::string& PatchText() {
  static const std::string text =
      std::string(R"({"format":1,"run":"grpo-7","version":42,"parent":41,"epoch":3,"step":1260,)") +
      R"("view":{"id":"bf16"},"digest":")" + kSha + R"(","tensors":339,"elements":7615616512,)" +
      R"("changed":58863476,"checkpoint_bytes":15231233024,)" +
      R"("payloads":[{"kind":"patch","base":41,"encoding":"direct","parts":[)" +
      R"({"key":"runs/grpo-7/data/42/0f/0.part","bytes":120,"sha256":")" + kSha + R"("}]}],)" +
      R"("files":{"config.json":")" + kSha + R"("},"meta":{"reward":"0.5"},)" +
      R"("created_at":"2026-01-31T09:30:00.250Z","producer":"isthmus 0.1"})" + "\n";
  return text;
}

const std::string& AnchorText() {
  static const std::string text =
      std::string(R"({"format":1,"run":"r","version":1,"parent":null,"epoch":1,)") +
      R"("view":{"id":"bf16"},"digest":")" + kSha + R"(","tensors":1,"elements":2,)" +
      R"("changed":0,"checkpoint_bytes":4,"payloads":[{"kind":"anchor","parts":[)" +
      R"({"key":"runs/r/data/1/0f/0","bytes":4,"sha256":")" + kSha +
      R"(","path":"sub/model.safetensors"}]}],"files":{},"meta":{},)" +
      R"("created_at":"2026-01-31T09:30:00.250Z","producer":"isthmus 0.1"})" + "\n";
  return text;
}

// Version 1 of run "n": the anchor of version 7 of run "r", whose objects it names.
const std::string& ForkText() {
  static const std::string text =
      std::string(R"({"format":1,"run":"n","version":1,"parent":null,)") +
      R"("fork":{"run":"r","version":7},"epoch":1,"view":{"id":"bf16"},"digest":")" + kSha +
      R"(","tensors":1,"elements":2,"changed":2,"checkpoint_bytes":4,"payloads":[)" +
      R"({"kind":"anchor","parts":[{"key":"runs/r/data/7/0f/0","bytes":4,"sha256":")" + kSha +
      R"(","path":"model.safetensors"}]}],"files":{},"meta":{},)" +
      R"("created_at":"2026-01-31T09:30:00.250Z","producer":"isthmus 0.1"})" + "\n";
  return text;
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return at == text.npos ? text : text.replace(at, from.size(), to);
}

TEST(ManifestTest, EveryFieldIsRead) {
  const Manifest manifest = Manifest::Parse(PatchText());
  EXPECT_EQ(manifest.run, "grpo-7");
  EXPECT_EQ(manifest.version, 42u);
  EXPECT_EQ(manifest.parent, 41u);
  EXPECT_EQ(manifest.epoch, 3u);
  EXPECT_EQ(manifest.step, 1260);
  EXPECT_EQ(manifest.view, "bf16");
  EXPECT_EQ(manifest.digest, ParseSha256(kSha));
  EXPECT_EQ(manifest.tensors, 339u);
  EXPECT_EQ(manifest.elements, 7615616512u);
  EXPECT_EQ(manifest.changed, 58863476u);
  EXPECT_EQ(manifest.checkpoint_bytes, 15231233024u);
  ASSERT_EQ(manifest.payloads.size(), 1u);
  const Payload& patch = manifest.payloads[0];
  EXPECT_EQ(patch.kind, PayloadKind::kPatch);
  EXPECT_EQ(patch.base, 41u);
  EXPECT_EQ(patch.encoding, "direct");
  EXPECT_EQ(patch.bytes(), 120u);
  ASSERT_EQ(patch.parts.size(), 1u);
  EXPECT_EQ(patch.parts[0].key, "runs/grpo-7/data/42/0f/0.part");
  EXPECT_EQ(patch.parts[0].sha256, ParseSha256(kSha));
  EXPECT_EQ(patch.parts[0].path, "");
  EXPECT_EQ(manifest.files.at("config.json"), ParseSha256(kSha));
  EXPECT_EQ(manifest.meta.at("reward"), "0.5");
  EXPECT_EQ(FormatTime(manifest.created_at), "2026-01-31T09:30:00.250Z");
  EXPECT_EQ(manifest.producer, "isthmus 0.1");
}

TEST(ManifestTest, AnAnchorNamesTheFilesThatItsPartsAre) {
  const Manifest manifest = Manifest::Parse(AnchorText());
  EXPECT_EQ(manifest.parent, kNoVersion);
  EXPECT_EQ(manifest.step, std::nullopt);
  EXPECT_EQ(manifest.payloads.at(0).kind, PayloadKind::kAnchor);
  EXPECT_EQ(manifest.payloads.at(0).parts.at(0).path, "sub/model.safetensors");
}

TEST(ManifestTest, SerializeWritesExactlyTheDocumentedForm) {
  EXPECT_EQ(Manifest::Parse(PatchText()).Serialize(), PatchText());
  EXPECT_EQ(Manifest::Parse(AnchorText()).Serialize(), AnchorText());
  EXPECT_EQ(Manifest::Parse(ForkText()).Serialize(), ForkText());
}

TEST(ManifestTest, AForkSaysWhereItComesFromAndNamesItsObjects) {
  const Manifest manifest = Manifest::Parse(ForkText());
  EXPECT_EQ(manifest.fork, (ForkPoint{"r", 7}));
  EXPECT_EQ(manifest.parent, kNoVersion);
  EXPECT_EQ(manifest.payloads.at(0).parts.at(0).key, "runs/r/data/7/0f/0");
  EXPECT_EQ(Manifest::Parse(AnchorText()).fork, std::nullopt);
  const std::string own = Replaced(ForkText(), "runs/r/data/", "runs/n/data/");
  EXPECT_EQ(Manifest::Parse(own).fork, (ForkPoint{"r", 7}));
  EXPECT_EQ(Manifest::Parse(Replaced(AnchorText(), R"("epoch")", R"("fork":null,"epoch")")).fork,
            std::nullopt);
}

TEST(ManifestTest, ExtremeValuesSurvive) {
  Manifest manifest = Manifest::Parse(PatchText());
  manifest.version = kMaxVersion;
  manifest.step = std::numeric_limits<int64_t>::min();
  manifest.elements = std::numeric_limits<uint64_t>::max();
  manifest.payloads[0].parts[0].bytes = std::numeric_limits<uint64_t>::max();
  manifest.payloads.push_back({PayloadKind::kPatch, 1, "direct+xor", {}});
  manifest.meta = {{"", ""}, {"\"\\\n\x01", "\xC3\xA4\xF0\x9F\x8C\x8D"}};
  manifest.producer = "";
  const std::string text = manifest.Serialize();
  const Manifest again = Manifest::Parse(text);
  EXPECT_EQ(again.Serialize(), text);
  EXPECT_EQ(again.step, manifest.step);
  EXPECT_EQ(again.elements, manifest.elements);
  EXPECT_EQ(again.meta, manifest.meta);
  EXPECT_EQ(again.payloads.at(1).encoding, "direct+xor");
}

TEST(ManifestTest, UnknownKeysAreIgnored) {
  const std::string text = Replaced(PatchText(), R"("run":)", R"("later":[{"a":null}],"run":)");
  EXPECT_EQ(Manifest::Parse(text).Serialize(), PatchText());
}

TEST(ManifestTest, ANewerFormatIsInvalidWhateverElseItHolds) {
  ExpectError(
      ErrorCode::kInvalid, [] { Manifest::Parse(R"({"format":2,"run":7})"); },
      "board format 2, this program reads 1");
}

TEST(ManifestTest, EveryMissingKeyIsCorruptAndNamed) {
  for (const std::string key : {"format",   "run",     "version",  "epoch",      "view",
                                "digest",   "tensors", "elements", "changed",    "checkpoint_bytes",
                                "payloads", "files",   "meta",     "created_at", "producer",
                                "kind",     "base",    "parts",    "key",        "bytes",
                                "sha256"}) {
    const std::string text = Replaced(PatchText(), "\"" + key + "\":", "\"_" + key + "\":");
    ExpectError(
        ErrorCode::kCorrupt, [&] { Manifest::Parse(text); }, key + ": missing");
  }
  ExpectError(
      ErrorCode::kCorrupt,
      [] { Manifest::Parse(Replaced(AnchorText(), R"("path":)", R"("_path":)")); },
      "payloads[0].parts[0].path: missing");
}

TEST(ManifestTest, WhatBreaksARuleIsCorrupt) {
  const std::pair<const char*, const char*> breaches[] = {
      {R"("format":1)", R"("format":0)"},
      {R"("format":1)", R"("format":"1")"},
      {R"("format":1)", R"("format":1.0)"},
      {R"("run":"grpo-7")", R"("run":"a/b")"},
      {R"("run":"grpo-7")", R"("run":"")"},
      {R"("run":"grpo-7")", R"("run":7)"},
      {R"("version":42)", R"("version":0)"},
      {R"("version":42)", R"("version":-42)"},
      {R"("version":42)", R"("version":42.0)"},
      {R"("version":42)", R"("version":10000000000)"},
      {R"("version":42)", R"("version":18446744073709551616)"},
      {R"("version":42)", R"("version":true)"},
      {R"("parent":41)", R"("parent":42)"},
      {R"("parent":41)", R"("parent":0)"},
      {R"("epoch":3)", R"("epoch":0)"},
      {R"("step":1260)", R"("step":"1260")"},
      {R"("step":1260)", R"("step":9223372036854775808)"},
      {R"({"id":"bf16"})", R"("bf16")"},
      {R"({"id":"bf16"})", R"({})"},
      {R"("digest":"sha256:0)", R"("digest":"sha256:)"},
      {R"("digest":"sha256:0)", R"("digest":"md5:0)"},
      {R"("tensors":339)", R"("tensors":-1)"},
      {R"("elements":7615616512)", R"("elements":null)"},
      {R"("kind":"patch")", R"("kind":"anchor")"},
      {R"("kind":"patch")", R"("kind":"delta")"},
      {R"("base":41)", R"("base":42)"},
      {R"("base":41)", R"("base":0)"},
      {R"("base":41)", R"("base":null)"},
      {R"("encoding":"direct")", R"("encoding":2)"},
      {R"("parts":[)", R"("parts":[7,)"},
      {R"("parts":[)", R"("parts":{},"_":[)"},
      {R"("key":"runs/)", R"("key":"../)"},
      {R"("key":"runs/)", R"("key":"/runs/)"},
      {R"("key":"runs/grpo-7/)", R"("key":"runs/other/)"},
      {R"("key":"runs/grpo-7/data/)", R"("key":"runs/grpo-7/log/)"},
      {R"("bytes":120)", R"("bytes":-1)"},
      {R"("bytes":120)", R"("path":"model.safetensors","bytes":120)"},
      {R"("config.json":)", R"("../config.json":)"},
      {R"("config.json":)", R"("/etc/passwd":)"},
      {R"("config.json":)", R"(".hidden":)"},
      {R"("config.json":)", R"("a\u0000b":)"},
      {R"("config.json":"sha256)", R"("config.json":"sha1)"},
      {R"("reward":"0.5")", R"("reward":0.5)"},
      {R"("2026-01-31T09:30:00.250Z")", R"("2026-02-30T09:30:00.250Z")"},
      {R"("2026-01-31T09:30:00.250Z")", R"("yesterday")"},
      {"}\n", "}}"},
      {"}\n", ""},
  };
  for (const auto& [from, to] : breaches) {
    SCOPED_TRACE(to);
    const std::string text = Replaced(PatchText(), from, to);
    ExpectError(ErrorCode::kCorrupt, [&] { Manifest::Parse(text); });
  }
}

TEST(ManifestTest, WhatBreaksARuleOfAnchorsIsCorrupt) {
  const std::string part =
      AnchorText().substr(AnchorText().find(R"({"key")"),
                          AnchorText().find("}]}]") + 1 - AnchorText().find(R"({"key")"));
  const std::pair<const char*, std::string> breaches[] = {
      {R"("kind":"anchor",)", R"("kind":"anchor","base":1,)"},
      {R"("sub/model.safetensors")", R"("../model.safetensors")"},
      {R"("sub/model.safetensors")", R"("sub//model.safetensors")"},
      {R"("sub/model.safetensors")", R"("")"},
      {R"("parts":[)", R"("parts":[)" + part + ","},  // one file twice
      {R"("parent":null)", R"("parent":1)"},
  };
  for (const auto& [from, to] : breaches) {
    SCOPED_TRACE(to);
    const std::string text = Replaced(AnchorText(), from, to);
    ExpectError(ErrorCode::kCorrupt, [&] { Manifest::Parse(text); });
  }
}

TEST(ManifestTest, WhatBreaksARuleOfForksIsCorruptAndNamed) {
  const std::tuple<const char*, const char*, const char*> breaches[] = {
      {R"("version":1,"parent":null)", R"("version":2,"parent":1)", "only version 1"},
      {R"("fork":{"run":"r")", R"("fork":{"run":"n")", "fork.run: the run itself"},
      {R"("fork":{"run":"r")", R"("fork":{"run":"../r")", "fork.run: run name"},
      {R"("fork":{"run":"r")", R"("fork":{"run":"")", "fork.run: run name"},
      {R"("fork":{"run":"r")", R"("fork":{"run":7)", "fork.run"},
      {R"("fork":{"run":"r",)", R"("fork":{)", "fork.run: missing"},
      {R"(,"version":7})", R"(})", "fork.version: missing"},
      {R"("version":7)", R"("version":0)", "fork.version"},
      {R"("version":7)", R"("version":10000000000)", "fork.version"},
      {R"({"run":"r","version":7})", R"("r")", "fork"},
      {R"("fork":{"run":"r","version":7},)", "", "does not begin with runs/n/data/"},
      {"runs/r/data/", "runs/third/data/", "runs/n/data/ or runs/r/data/"},
      {"runs/r/data/", "runs/r/log/", "does not begin with"},
      {"runs/r/data/", "runs/rr/data/", "does not begin with"},
  };
  for (const auto& [from, to, named] : breaches) {
    SCOPED_TRACE(to);
    const std::string text = Replaced(ForkText(), from, to);
    ExpectError(
        ErrorCode::kCorrupt, [&] { Manifest::Parse(text); }, named);
  }
}

TEST(ManifestTest, PartsWhoseSumOverflowsAreCorrupt) {
  Manifest manifest = Manifest::Parse(PatchText());
  PayloadPart part = manifest.payloads[0].parts[0];
  part.bytes = std::numeric_limits<uint64_t>::max();
  manifest.payloads[0].parts.push_back(part);
  ExpectError(
      ErrorCode::kCorrupt, [&] { Manifest::Parse(manifest.Serialize()); }, "payloads[0].parts");
}

TEST(ManifestTest, HostileTextIsCorruptAndKeepsMessagesShort) {
  const std::string texts[] = {"",
                               "null",
                               "[]",
                               "7",
                               std::string(100'000, '['),
                               "{\"format\":1,\"run\":\"" + std::string(1 << 20, 'x') + "\"}",
                               Replaced(PatchText(), "config.json", std::string(1 << 20, '/')),
                               Replaced(PatchText(), "0.5", "\xFF"),
                               PatchText() + PatchText()};
  for (const std::string& text : texts) {
    try {
      Manifest::Parse(text);
      ADD_FAILURE() << text.substr(0, 100);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
      EXPECT_LT(std::string_view(error.what()).size(), 2000u);
      EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos);
    }
  }
}

// Either refused, or a manifest that survives a round trip.
void ExpectRefusedOrStable(const std::string& text) {
  std::string once;
  try {
    once = Manifest::Parse(text).Serialize();
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kInvalid)
        << error.what();
    return;
  }
  EXPECT_EQ(Manifest::Parse(once).Serialize(), once) << text;
}

TEST(ManifestTest, EveryTruncationIsCorrupt) {
  for (const std::string& text : {PatchText(), AnchorText(), ForkText()}) {
    for (size_t length = 0; length < text.size() - 1; ++length) {  // the newline may go
      ExpectError(ErrorCode::kCorrupt, [&] { Manifest::Parse(text.substr(0, length)); });
    }
  }
}

TEST(ManifestTest, EveryFlippedBitAndEveryByteOfJsonPunctuationIsRefusedOrStable) {
  for (std::string text : {PatchText(), AnchorText(), ForkText()}) {
    for (char& byte : text) {
      const char original = byte;
      std::string values = "\"\\{}[],:-.0e ";
      for (int bit = 0; bit < 8; ++bit) values += static_cast<char>(original ^ (1 << bit));
      for (const char value : values) {
        byte = value;
        ExpectRefusedOrStable(text);
      }
      byte = original;
    }
  }
}

TEST(CheckRunNameTest, AllowsOneSegmentOfAKey) {
  const std::string longest(128, 'a');
  for (const std::string& name : {std::string("grpo-7"), std::string("A_b.c"), longest}) {
    EXPECT_NO_THROW(CheckRunName(name)) << name;
  }
  const std::vector<std::string> bad = {"",    ".",        "..",  ".a",         "a/b",
                                        "a b", "\xC3\xA4", "a\n", longest + "a"};
  for (const std::string& name : bad) {
    ExpectError(
        ErrorCode::kInvalid, [&] { CheckRunName(name); }, "run name", "128");
  }
}

}  // namespace
}  // namespace isthmus::board
