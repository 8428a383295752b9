#include "isthmus/replica/changes_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstring>
#include <limits>
#include <map>

#include "isthmus/base/error.h"
#include "isthmus/tensor/safetensors.h"

namespace isthmus::replica {
namespace {

using tensor::Dtype;
using tensor::TensorInfo;
using tensor::VersionTable;

constexpr std::string_view kFormat = "1";

Dtype BitsDtype(size_t unit_bytes) {
  if (unit_bytes == 1) return Dtype::kU8;
  return unit_bytes == 2 ? Dtype::kU16 : Dtype::kU32;
}

uint64_t UnitsOf(const VersionTable::Tensor& tensor) {
  return tensor::BytesOf(tensor.name, tensor.dtype, tensor.shape) / tensor::UnitBytes(tensor.dtype);
}

template <typename T>
void WriteShifted(std::span<const uint32_t> positions, uint64_t by, File* file) {
  std::vector<T> shifted(positions.size());
  for (size_t i = 0; i < positions.size(); ++i) shifted[i] = static_cast<T>(positions[i] + by);
  file->Write(std::as_bytes(std::span(shifted)));
}

}  // namespace

// One tensor's stretches, in order.
struct ChangeRecorder::Entry {
  const VersionTable::Tensor* tensor;
  std::span<const Stretch> stretches;

  uint64_t units() const {
    uint64_t sum = 0;
    for (const Stretch& stretch : stretches) sum += stretch.positions.size();
    return sum;
  }
  bool is_wide() const { return UnitsOf(*tensor) > std::numeric_limits<uint32_t>::max(); }
  size_t unit_bytes() const { return tensor::UnitBytes(tensor->dtype); }

  TensorInfo PositionsInfo() const {
    return {"p:" + tensor->name, is_wide() ? Dtype::kU64 : Dtype::kU32, {units()}};
  }
  TensorInfo BitsInfo() const { return {"b:" + tensor->name, BitsDtype(unit_bytes()), {units()}}; }
};

ChangeRecorder::ChangeRecorder(size_t tensors, uint64_t max_bytes)
    : left_(static_cast<int64_t>(std::min<uint64_t>(max_bytes, INT64_MAX))),
      sum_changes_(tensors) {}

void ChangeRecorder::Record(size_t tensor, uint64_t first_unit, size_t unit_bytes, ByteSpan range,
                            std::span<const codec::OldUnit> changes, uint64_t first,
                            uint64_t sum_change) {
  if (overflowed()) return;
  left_ -= static_cast<int64_t>(changes.size() * (sizeof(uint32_t) + unit_bytes));
  if (overflowed()) return;
  sum_changes_[tensor] += sum_change;
  Stretch stretch{tensor, first_unit, {}, ByteVector(changes.size() * unit_bytes)};
  stretch.positions.reserve(changes.size());
  for (const codec::OldUnit& change : changes) {
    const auto at = static_cast<uint32_t>(change.position - first);
    std::memcpy(stretch.bits.data() + stretch.positions.size() * unit_bytes,
                range.data() + size_t{at} * unit_bytes, unit_bytes);
    stretch.positions.push_back(at);
  }
  const std::lock_guard lock(mutex_);
  stretches_.push_back(std::move(stretch));
}

std::vector<ChangeRecorder::Entry> ChangeRecorder::Entries(const VersionTable& table) const {
  std::vector<Entry> entries;
  for (size_t begin = 0; begin < stretches_.size();) {
    size_t end = begin;
    while (end < stretches_.size() && stretches_[end].tensor == stretches_[begin].tensor) ++end;
    entries.push_back({&table.tensors[stretches_[begin].tensor],
                       std::span(stretches_).subspan(begin, end - begin)});
    begin = end;
  }
  return entries;
}

std::string ChangeRecorder::Describe(const VersionTable& table) const {
  boost::json::object tensors;
  for (const Stretch& stretch : stretches_) {
    const VersionTable::Tensor& tensor = table.tensors[stretch.tensor];
    tensors[tensor.name] = {DtypeName(tensor.dtype),
                            boost::json::array(tensor.shape.begin(), tensor.shape.end()),
                            fmt::format("{:016x}", sum_changes_[stretch.tensor].load())};
  }
  return boost::json::serialize(tensors);
}

void ChangeRecorder::WritePositions(const Entry& entry, File* file) const {
  for (const Stretch& stretch : entry.stretches) {
    if (entry.is_wide()) {
      WriteShifted<uint64_t>(stretch.positions, stretch.first_unit, file);
    } else {
      WriteShifted<uint32_t>(stretch.positions, stretch.first_unit, file);
    }
  }
}

// Entries by falling size of their units, so that each is aligned.
void ChangeRecorder::Write(const fs::path& path, const std::string& run, const ChangeEnd& from,
                           const ChangeEnd& to, const VersionTable& table) {
  std::ranges::sort(stretches_, {}, [](const Stretch& stretch) {
    return std::pair(stretch.tensor, stretch.first_unit);
  });
  std::vector<Entry> entries = Entries(table);
  std::ranges::stable_sort(entries, std::greater(), &Entry::is_wide);
  std::vector<TensorInfo> infos;
  infos.reserve(2 * entries.size());
  for (const Entry& entry : entries) infos.push_back(entry.PositionsInfo());
  std::vector<Entry> by_unit = entries;
  std::ranges::stable_sort(by_unit, std::greater(), &Entry::unit_bytes);
  for (const Entry& entry : by_unit) infos.push_back(entry.BitsInfo());
  const std::map<std::string, std::string> metadata = {
      {"isthmus.changes", std::string(kFormat)},
      {"isthmus.run", run},
      {"isthmus.from", std::to_string(from.version)},
      {"isthmus.to", std::to_string(to.version)},
      {"isthmus.digest.from", from.digest.Hex()},
      {"isthmus.digest.to", to.digest.Hex()},
      {"isthmus.tensors", Describe(table)}};
  File file = File::Create(path);
  file.Write(tensor::MakeSafetensorsHeader(infos, metadata));
  for (const Entry& entry : entries) WritePositions(entry, &file);
  for (const Entry& entry : by_unit) {
    for (const Stretch& stretch : entry.stretches) file.Write(stretch.bits);
  }
}

}  // namespace isthmus::replica
