#include "isthmus/codec/layout.h"

#include <algorithm>
#include <tuple>

namespace isthmus::codec {
namespace {

uint64_t UnitsOf(const LayoutTensor& tensor) {
  return tensor.bytes / tensor::UnitBytes(tensor.dtype);
}

// Indices of the tensors in the order in which they are cut.
std::vector<size_t> CutOrder(const std::vector<LayoutTensor>& tensors) {
  std::vector<std::tuple<tensor::Dtype, std::string, std::string_view, size_t>> keys;
  keys.reserve(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    keys.emplace_back(tensors[i].dtype, FamilyOf(tensors[i].name), tensors[i].name, i);
  }
  std::ranges::sort(keys);
  std::vector<size_t> order;
  order.reserve(keys.size());
  for (const auto& key : keys) order.push_back(std::get<3>(key));
  return order;
}

}  // namespace

std::string FamilyOf(std::string_view name) {
  std::string family;
  for (const char c : name) {
    if (c < '0' || c > '9') family.push_back(c);
  }
  return family;
}

ChunkLayout::ChunkLayout(const std::vector<LayoutTensor>& tensors) {
  const std::vector<size_t> order = CutOrder(tensors);
  for (const size_t i : order) {
    if (UnitsOf(tensors[i]) >= kChunkUnits) Cut(i, tensors[i]);
  }
  first_pool_ = chunks_.size();
  for (const size_t i : order) {
    const uint64_t units = UnitsOf(tensors[i]);
    if (units > 0 && units < kChunkUnits) Pool(i, tensors[i]);
  }
}

ChunkLayout ChunkLayout::Of(const tensor::VersionTable& table) {
  std::vector<LayoutTensor> tensors;
  tensors.reserve(table.tensors.size());
  for (const tensor::VersionTable::Tensor& tensor : table.tensors) {
    tensors.push_back(
        {tensor.name, tensor.dtype, tensor::BytesOf(tensor.name, tensor.dtype, tensor.shape)});
  }
  return ChunkLayout(tensors);
}

void ChunkLayout::Cut(size_t tensor, const LayoutTensor& info) {
  const uint64_t all = UnitsOf(info);
  for (uint64_t first = 0; first < all; first += kChunkUnits) {
    const uint64_t units = std::min(kChunkUnits, all - first);
    chunks_.push_back({info.dtype, units, pieces_.size(), 1});
    pieces_.push_back({tensor, first, units, 0});
  }
}

void ChunkLayout::Pool(size_t tensor, const LayoutTensor& info) {
  const uint64_t units = UnitsOf(info);
  const bool joins = chunks_.size() > first_pool_ && chunks_.back().dtype == info.dtype &&
                     chunks_.back().units + units <= kChunkUnits;
  if (!joins) chunks_.push_back({info.dtype, 0, pieces_.size(), 0});
  Chunk& pool = chunks_.back();
  pieces_.push_back({tensor, 0, units, pool.units});
  pool.units += units;
  ++pool.piece_count;
}

}  // namespace isthmus::codec
