#include "isthmus/ranks/assignment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "isthmus/base/error.h"

namespace isthmus::ranks {
namespace {

using tensor::VersionTable;

uint64_t UnitsOf(const VersionTable::Tensor& tensor) {
  return tensor::BytesOf(tensor.name, tensor.dtype, tensor.shape) / tensor::UnitBytes(tensor.dtype);
}

uint64_t RowsOf(const VersionTable::Tensor& tensor) {
  return tensor.shape.empty() ? 1 : tensor.shape.front();
}

// A place in a tensor as people count; the row that the unit is in.
uint64_t RowAt(const VersionTable::Tensor& tensor, uint64_t unit) {
  const uint64_t units = UnitsOf(tensor);
  const auto row =
      static_cast<unsigned __int128>(unit) * RowsOf(tensor) / std::max<uint64_t>(units, 1);
  return static_cast<uint64_t>(row);
}

[[noreturn]] void RefuseGap(const VersionTable::Tensor& tensor, uint64_t from, uint64_t to) {
  Throw(ErrorCode::kInvalid, "cover tensor {}: no rank holds rows {} to {} of {}", tensor.name,
        RowAt(tensor, from), RowAt(tensor, to - 1), RowsOf(tensor));
}

[[noreturn]] void RefuseOverlap(const VersionTable::Tensor& tensor, const Holding& a,
                                const Holding& b) {
  Throw(ErrorCode::kInvalid, "cover tensor {}: rank {} and rank {} both hold row {}", tensor.name,
        a.rank, b.rank, RowAt(tensor, b.first));
}

// `held`: of this tensor, by first unit.
void CheckCovered(const VersionTable::Tensor& tensor, std::span<const Holding> held) {
  const uint64_t units = UnitsOf(tensor);
  uint64_t covered = 0;
  const Holding* last = nullptr;
  for (const Holding& holding : held) {
    if (holding.units > units || holding.first > units - holding.units) {
      Throw(ErrorCode::kInvalid, "cover tensor {}: rank {} holds units {} to {} of {}", tensor.name,
            holding.rank, holding.first, holding.first + holding.units, units);
    }
    if (holding.first > covered) RefuseGap(tensor, covered, holding.first);
    if (holding.first < covered) RefuseOverlap(tensor, *last, holding);
    covered += holding.units;
    last = &holding;
  }
  if (covered < units) RefuseGap(tensor, covered, units);
}

void CheckCoverage(const VersionTable& outline, std::span<const Holding> holdings, uint32_t ranks) {
  for (const Holding& holding : holdings) {
    if (holding.rank < ranks && holding.tensor < outline.tensors.size()) continue;
    Throw(ErrorCode::kInvalid, "cover the tensors: rank {} of {} holds tensor {} of {}",
          holding.rank, ranks, holding.tensor, outline.tensors.size());
  }
  for (size_t i = 0; i < outline.tensors.size(); ++i) {
    CheckCovered(outline.tensors[i], std::ranges::equal_range(holdings, i, {}, &Holding::tensor));
  }
}

}  // namespace

Holding HoldingOf(const VersionTable& outline, uint32_t rank, const HeldRows& rows) {
  const VersionTable::Tensor* const tensor = outline.Find(rows.name);
  if (tensor == nullptr) {
    Throw(ErrorCode::kInvalid, "look at the share of rank {}: the run has no tensor {}", rank,
          rows.name);
  }
  if (tensor->dtype != rows.dtype || tensor->shape != rows.shape) {
    Throw(ErrorCode::kInvalid,
          "look at the share of rank {}: tensor {} is {} [{}], the run's is {} [{}]", rank,
          rows.name, tensor::DtypeName(rows.dtype), fmt::join(rows.shape, ","),
          tensor::DtypeName(tensor->dtype), fmt::join(tensor->shape, ","));
  }
  const uint64_t all = RowsOf(*tensor);
  if (rows.rows > all || rows.first_row > all - rows.rows) {
    Throw(ErrorCode::kInvalid, "look at the share of rank {}: rows {} to {} of tensor {} with {}",
          rank, rows.first_row, rows.first_row + rows.rows, rows.name, all);
  }
  const uint64_t units = UnitsOf(*tensor);
  if (all > 0 && units % all != 0 && (rows.first_row != 0 || rows.rows != all)) {
    Throw(
        ErrorCode::kInvalid,
        "look at the share of rank {}: a row of tensor {} ends within a byte, it can only be held "
        "whole",
        rank, rows.name);
  }
  if (all == rows.rows)
    return {rank, static_cast<size_t>(tensor - outline.tensors.data()), 0, units};
  const uint64_t row_units = units / all;
  return {rank, static_cast<size_t>(tensor - outline.tensors.data()), rows.first_row * row_units,
          rows.rows * row_units};
}

Assignment::Assignment(const VersionTable& outline, std::vector<Holding> holdings, uint32_t ranks)
    : layout_(codec::ChunkLayout::Of(outline)), owned_(ranks), slices_(ranks) {
  std::erase_if(holdings, [](const Holding& holding) { return holding.units == 0; });
  std::ranges::sort(holdings, {}, [](const Holding& holding) {
    return std::pair(holding.tensor, holding.first);
  });
  CheckCoverage(outline, holdings, ranks);
  FindHolders(holdings);
  ChooseOwners();
}

std::span<const Assignment::Range> Assignment::Holders(size_t chunk) const {
  return std::span(ranges_).subspan(first_range_[chunk],
                                    first_range_[chunk + 1] - first_range_[chunk]);
}

void Assignment::FindHolders(const std::vector<Holding>& holdings) {
  for (const codec::ChunkLayout::Chunk& chunk : layout_.chunks()) {
    first_range_.push_back(ranges_.size());
    for (const codec::Piece& piece : layout_.Pieces(chunk)) {
      const uint64_t end = piece.first_unit + piece.units;
      // The last holding that begins at or before the piece, then those up to its end.
      auto held = std::ranges::upper_bound(
          holdings, std::pair(piece.tensor, piece.first_unit), {},
          [](const Holding& holding) { return std::pair(holding.tensor, holding.first); });
      for (--held; held != holdings.end() && held->tensor == piece.tensor && held->first < end;
           ++held) {
        const uint64_t from = std::max(held->first, piece.first_unit);
        const uint64_t units = std::min(held->first + held->units, end) - from;
        const bool joins =
            ranges_.size() > first_range_.back() && ranges_.back().rank == held->rank;
        if (joins) {
          ranges_.back().units += units;
        } else {
          ranges_.push_back({held->rank, piece.chunk_unit + from - piece.first_unit, units});
        }
      }
    }
  }
  first_range_.push_back(ranges_.size());
}

void Assignment::ChooseOwners() {
  std::vector<uint64_t> given(owned_.size());
  for (size_t chunk = 0; chunk < layout_.chunks().size(); ++chunk) {
    std::map<uint32_t, uint64_t> held;
    for (const Range& range : Holders(chunk)) held[range.rank] += range.units;
    const auto best = std::ranges::min_element(held, {}, [&](const auto& item) {
      return std::tuple(~item.second, given[item.first], item.first);
    });
    const uint32_t owner = best->first;
    owners_.push_back(owner);
    owned_[owner].push_back(chunk);
    given[owner] += layout_.chunks()[chunk].units;
    for (const Range& range : Holders(chunk)) {
      if (range.rank != owner) {
        slices_[range.rank][owner].push_back({chunk, range.first, range.units});
      }
    }
  }
}

}  // namespace isthmus::ranks
