#include "isthmus/replica/changes_file.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <cstring>
#include <map>
#include <random>

#include "isthmus/base/mapped_file.h"
#include "isthmus/tensor/position_sum.h"
#include "isthmus/tensor/safetensors.h"
#include "tests/support/seed.h"
#include "tests/support/temp_dir.h"

namespace isthmus::replica {
namespace {

using codec::OldUnit;
using ::isthmus::testing::TempDir;
using tensor::Dtype;
using tensor::TensorInfo;
using tensor::VersionTable;

// A tensor before and after, cut into stretches as a pass cuts it into chunks.
struct Pair {
  std::string name;
  Dtype dtype;
  ByteVector before;
  ByteVector after;
};

class ChangesFileTest : public ::testing::Test {
 protected:
  Pair MakePair(const std::string& name, Dtype dtype, uint64_t units, double density) {
    const size_t unit_bytes = tensor::UnitBytes(dtype);
    Pair pair{name, dtype, ByteVector(units * unit_bytes), {}};
    for (std::byte& byte : pair.before) byte = static_cast<std::byte>(random_());
    pair.after = pair.before;
    for (uint64_t unit = 0; unit < units; ++unit) {
      if (std::uniform_real_distribution<>(0, 1)(random_) >= density) continue;
      pair.after[unit * unit_bytes] ^= std::byte{1};
    }
    return pair;
  }

  VersionTable TableOf(const std::vector<Pair>& pairs) {
    VersionTable table;
    for (const Pair& pair : pairs) {
      const uint64_t elements = pair.after.size() * 8 / tensor::BitsOf(pair.dtype);
      table.tensors.push_back({pair.name, pair.dtype, {elements}, "model.safetensors", {}});
    }
    return table;
  }

  // In stretches of kStretch units, the last first.
  void Record(const std::vector<Pair>& pairs, ChangeRecorder* recorder) {
    constexpr uint64_t kFirst = 5;  // where a piece begins in its chunk
    for (size_t i = 0; i < pairs.size(); ++i) {
      const Pair& pair = pairs[i];
      const size_t unit_bytes = tensor::UnitBytes(pair.dtype);
      const uint64_t units = pair.after.size() / unit_bytes;
      for (uint64_t end = units; end > 0;) {
        const uint64_t begin = end > kStretch ? end - kStretch : 0;
        std::vector<OldUnit> changes;
        for (uint64_t unit = begin; unit < end; ++unit) {
          OldUnit old{static_cast<uint32_t>(unit - begin + kFirst), 0};
          std::memcpy(&old.bits, pair.before.data() + unit * unit_bytes, unit_bytes);
          const bool same = std::memcmp(pair.before.data() + unit * unit_bytes,
                                        pair.after.data() + unit * unit_bytes, unit_bytes) == 0;
          if (!same) changes.push_back(old);
        }
        const ByteSpan range =
            ByteSpan(pair.after).subspan(begin * unit_bytes, (end - begin) * unit_bytes);
        const ByteSpan old_range =
            ByteSpan(pair.before).subspan(begin * unit_bytes, (end - begin) * unit_bytes);
        const uint64_t sum = tensor::PositionSum(range, unit_bytes, begin) -
                             tensor::PositionSum(old_range, unit_bytes, begin);
        recorder->Record(i, begin, unit_bytes, range, changes, kFirst, sum);
        end = begin;
      }
    }
  }

  static constexpr uint64_t kStretch = 700;
  TempDir dir_;
  std::mt19937_64 random_{isthmus::testing::TestSeed()};
};

// As docs/changes-file.md says, and nothing else.
std::map<std::string, ByteVector> Apply(const fs::path& path, const std::vector<Pair>& pairs) {
  const MappedFile map(path, Access::kRead);
  const tensor::SafetensorsHeader header = tensor::ParseSafetensors(map.bytes());
  std::map<std::string, const TensorInfo*> entries;
  for (const TensorInfo& info : header.tensors) {
    entries[info.name] = &info;
    EXPECT_EQ(info.begin % tensor::UnitBytes(info.dtype), 0U) << info.name;
  }
  const boost::json::object facts =
      boost::json::parse(header.metadata.at("isthmus.tensors")).as_object();
  std::map<std::string, ByteVector> result;
  for (const Pair& pair : pairs) {
    ByteVector bytes = pair.before;
    result[pair.name] = bytes;
    if (!entries.contains("p:" + pair.name)) {
      EXPECT_FALSE(facts.contains(pair.name));
      continue;
    }
    const size_t unit_bytes = tensor::UnitBytes(pair.dtype);
    const ByteSpan positions =
        map.bytes().subspan(entries["p:" + pair.name]->begin, entries["p:" + pair.name]->bytes());
    const ByteSpan bits =
        map.bytes().subspan(entries["b:" + pair.name]->begin, entries["b:" + pair.name]->bytes());
    int64_t last = -1;
    for (size_t i = 0; i < positions.size() / sizeof(uint32_t); ++i) {
      const auto position = LoadLe<uint32_t>(positions.data() + i * sizeof(uint32_t));
      EXPECT_GT(int64_t{position}, last);
      last = position;
      std::memcpy(bytes.data() + position * unit_bytes, bits.data() + i * unit_bytes, unit_bytes);
    }
    const auto& entry = facts.at(pair.name).as_array();
    EXPECT_EQ(entry[0].as_string(), DtypeName(pair.dtype));
    const uint64_t change = tensor::PositionSum(pair.after, unit_bytes, 0) -
                            tensor::PositionSum(pair.before, unit_bytes, 0);
    EXPECT_EQ(entry[2].as_string(), fmt::format("{:016x}", change));
    result[pair.name] = std::move(bytes);
  }
  return result;
}

TEST_F(ChangesFileTest, HoldsWhatLeadsFromOneVersionToTheNext) {
  std::vector<Pair> pairs = {
      MakePair("a.bf16", Dtype::kBf16, 5000, 0.05),  MakePair("b.f32", Dtype::kF32, 3000, 0.3),
      MakePair("c.fp8", Dtype::kF8E4M3, 4001, 0.01), MakePair("d.same", Dtype::kBf16, 100, 0),
      MakePair("e.all", Dtype::kU8, 777, 1),         MakePair("f.f64", Dtype::kF64, 1000, 0.1)};
  const VersionTable table = TableOf(pairs);
  ChangeRecorder recorder(pairs.size(), 1 << 20);
  Record(pairs, &recorder);
  ASSERT_FALSE(recorder.overflowed());
  const ChangeEnd from{7, Sha256(AsBytes("from"))};
  const ChangeEnd to{9, Sha256(AsBytes("to"))};
  recorder.Write(dir_ / "changes", "run", from, to, table);
  const auto result = Apply(dir_ / "changes", pairs);
  for (const Pair& pair : pairs) EXPECT_EQ(result.at(pair.name), pair.after) << pair.name;
  const MappedFile map(dir_ / "changes", Access::kRead);
  const auto metadata = tensor::ParseSafetensors(map.bytes()).metadata;
  EXPECT_EQ(metadata.at("isthmus.changes"), "1");
  EXPECT_EQ(metadata.at("isthmus.run"), "run");
  EXPECT_EQ(metadata.at("isthmus.from"), "7");
  EXPECT_EQ(metadata.at("isthmus.to"), "9");
  EXPECT_EQ(metadata.at("isthmus.digest.from"), from.digest.Hex());
  EXPECT_EQ(metadata.at("isthmus.digest.to"), to.digest.Hex());
}

TEST_F(ChangesFileTest, KeepsNothingBeyondItsBound) {
  const std::vector<Pair> pairs = {MakePair("a", Dtype::kBf16, 5000, 0.5)};
  ChangeRecorder recorder(1, 2000);
  Record(pairs, &recorder);
  EXPECT_TRUE(recorder.overflowed());
}

TEST_F(ChangesFileTest, MayHoldNothing) {
  const std::vector<Pair> pairs = {MakePair("a", Dtype::kBf16, 50, 0)};
  ChangeRecorder recorder(1, 2000);
  Record(pairs, &recorder);
  recorder.Write(dir_ / "changes", "run", {1, {}}, {2, {}}, TableOf(pairs));
  EXPECT_EQ(Apply(dir_ / "changes", pairs).at("a"), pairs[0].after);
}

}  // namespace
}  // namespace isthmus::replica
