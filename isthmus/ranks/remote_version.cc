#include "isthmus/ranks/remote_version.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/replica/chain_search.h"
#include "isthmus/tensor/checkpoint.h"

namespace isthmus::ranks {
namespace {

// Ranges this near to each other are read in one request.
constexpr uint64_t kJoinedGapBytes = 64 << 10;
// A header is first asked for with so many bytes: enough for most models.
constexpr uint64_t kHeaderGuessBytes = 256 << 10;

bool IsShard(const std::string& path) {
  return path.ends_with(".safetensors") && path.find('/') == std::string::npos;
}

// Where bytes of an object go.
struct Read {
  std::string_view key;
  uint64_t offset;
  MutableByteSpan out;

  uint64_t end() const { return offset + out.size(); }
};

void ReadJoined(store::Store& store, std::span<const Read> reads) {
  const uint64_t begin = reads.front().offset;
  const std::string bytes =
      store.GetRange(std::string(reads.front().key), begin, reads.back().end() - begin);
  for (const Read& read : reads) {
    const ByteSpan found = AsBytes(bytes).subspan(read.offset - begin, read.out.size());
    std::ranges::copy(found, read.out.begin());
  }
}

void ReadAll(store::Store& store, std::vector<Read> reads) {
  std::ranges::sort(reads, {}, [](const Read& read) { return std::pair(read.key, read.offset); });
  for (size_t first = 0; first < reads.size();) {
    size_t last = first + 1;
    while (last < reads.size() && reads[last].key == reads[first].key &&
           reads[last].offset <= reads[last - 1].end() + kJoinedGapBytes) {
      ++last;
    }
    ReadJoined(store, std::span(reads).subspan(first, last - first));
    first = last;
  }
}

}  // namespace

RemoteVersion::RemoteVersion(const board::Board& board, const board::Manifest& manifest,
                             const fs::path& scratch, ThreadPool& pool, Progress& progress)
    : store_(board.store()),
      what_(fmt::format("read version {} of run {}", manifest.version, manifest.run)) {
  replica::ChainSearch search(board, manifest.run, manifest.version);
  for (;;) {
    const replica::Plan plan = search.Next(board::kNoVersion, {});
    replica::PlannedPayload current;
    try {
      patches_.reset();  // before others go to the same place
      patches_ = std::make_unique<replica::FetchedPatches>(scratch);
      for (const replica::PlannedPayload& planned : plan.payloads) {
        current = planned;
        const board::Payload& payload = search.PayloadOf(planned);
        if (payload.kind == board::PayloadKind::kAnchor) {
          ReadAnchor(payload);
        } else {
          patches_->Add(store_, payload, pool, progress);
        }
      }
      chain_.emplace(anchor_, patches_->patches());
      break;
    } catch (const Error& error) {
      if (!MeansDamage(error)) throw;
      search.Blame(current, error);
    }
  }
  for (const auto& tensor : anchor_.tensors) place_of_.push_back(places_.at(tensor.name));
}

void RemoteVersion::ReadAnchor(const board::Payload& anchor) {
  anchor_ = {};
  places_.clear();
  for (const board::PayloadPart& part : anchor.parts) {
    const std::optional<uint64_t> size = store_.Size(part.key);
    if (size != part.bytes) {
      Throw(ErrorCode::kCorrupt, "{}: {} has {} bytes, expected {}", what_, part.key,
            size ? fmt::format("{}", *size) : "no", part.bytes);
    }
    if (IsShard(part.path)) {
      ReadShard(part);
    } else {
      anchor_.files.push_back({part.path, part.bytes, part.sha256});
    }
  }
  std::ranges::sort(anchor_.tensors);
  std::ranges::sort(anchor_.shards);
  std::ranges::sort(anchor_.files);
  anchor_ = tensor::VersionTable::Parse(anchor_.Serialize());  // kCorrupt for names held twice
}

void RemoteVersion::ReadShard(const board::PayloadPart& part) {
  std::string start =
      store_.GetRange(part.key, 0, std::min<uint64_t>(part.bytes, kHeaderGuessBytes));
  const uint64_t header_bytes =
      start.size() < sizeof(uint64_t) ? 0 : LoadLe<uint64_t>(AsBytes(start).data());
  const uint64_t most = std::min<uint64_t>(part.bytes, tensor::kMaxHeaderBytes + sizeof(uint64_t));
  if (header_bytes <= most && header_bytes + sizeof(uint64_t) > start.size()) {
    start = store_.GetRange(part.key, 0, std::min(most, header_bytes + sizeof(uint64_t)));
  }
  try {
    const auto header = tensor::ParseSafetensorsHeader(AsBytes(start), part.bytes);
    anchor_.shards.push_back({part.path, Sha256(AsBytes(start).first(header.header_bytes))});
    for (const tensor::TensorInfo& info : header.tensors) {
      anchor_.tensors.push_back({info.name, info.dtype, info.shape, part.path, {}});
      places_[info.name] = {part.key, info.begin};
    }
  } catch (const Error& error) {
    throw error.Annotated(fmt::format("{}: {}", what_, part.key));
  }
}

void RemoteVersion::ReadChunk(size_t chunk, ByteVector* bytes) const {
  const codec::ChunkLayout::Chunk& info = chain_->layout().chunks()[chunk];
  const size_t unit_bytes = tensor::UnitBytes(info.dtype);
  bytes->resize(info.bytes());
  std::vector<Read> reads;
  for (const codec::Piece& piece : chain_->layout().Pieces(info)) {
    const Place& place = place_of_[piece.tensor];
    reads.push_back(
        {place.key, place.offset + piece.first_unit * unit_bytes,
         MutableByteSpan(*bytes).subspan(piece.chunk_unit * unit_bytes, piece.units * unit_bytes)});
  }
  ReadAll(store_, std::move(reads));
  if (chain_->Touches(chunk)) chain_->FoldChunk(chunk, *bytes);
}

}  // namespace isthmus::ranks
