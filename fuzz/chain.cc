// Parts against the base that they are for: the rules of docs/patch-format.md, section 4, and then
// every chunk folded. Bases are those of the golden vectors.
#include "isthmus/codec/chain.h"

#include "fuzz/fuzz.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/codec/chunk_scan.h"
#include "isthmus/tensor/checkpoint.h"

namespace isthmus::fuzz {
namespace {

using codec::Chain;
using codec::Part;
using tensor::Checkpoint;
using tensor::VersionTable;

struct Base {
  std::string name;
  Checkpoint checkpoint;
  VersionTable table;
  Sha256Digest digest;
};

// Large checkpoints lie there packed; they are left out, for speed.
bool IsPacked(const fs::path& directory) {
  const auto files = fs::directory_iterator(directory);
  return std::any_of(begin(files), end(files),
                     [](const auto& entry) { return entry.path().extension() == ".zst"; });
}

std::vector<Base> OpenBases() {
  std::vector<Base> bases;
  ThreadPool pool(1);
  const fs::path golden = fs::path(ISTHMUS_SOURCE_DIR) / "tests/golden/must-decode";
  for (const auto& entry : fs::directory_iterator(golden)) {
    const fs::path directory = entry.path() / "base";
    if (IsPacked(directory)) continue;
    Checkpoint checkpoint = Checkpoint::Open(directory);
    VersionTable table = tensor::DigestCheckpoint(checkpoint, pool);
    const Sha256Digest digest = table.Digest();
    bases.push_back({entry.path().filename(), std::move(checkpoint), std::move(table), digest});
  }
  return bases;
}

// The base that the part states, else "plain".
const Base& BaseOf(const Part& part) {
  static const std::vector<Base> bases = OpenBases();
  if (part.versions()) {
    const auto stated = std::ranges::find(bases, part.versions()->base, &Base::digest);
    if (stated != bases.end()) return *stated;
  }
  return *std::ranges::find(bases, "plain", &Base::name);
}

// Applies one patch after another; whether all chunks could be folded.
bool Fold(const Base& base, const std::vector<codec::Patch>& patches) {
  const Chain chain(base.table, patches);
  // Whatever the chain makes of the files, a version table can describe it.
  chain.outline().Serialize();
  bool folded = true;
  for (size_t chunk = 0; chunk < chain.layout().chunks().size(); ++chunk) {
    if (!chain.Touches(chunk)) continue;
    ByteVector scratch;
    const ByteSpan old = codec::ChunkBytes(base.checkpoint, chain.layout(), chunk, &scratch);
    ByteVector bytes(old.begin(), old.end());  // of the chunk's exact size
    folded &= Succeeds([&] { chain.FoldChunk(chunk, bytes); });
  }
  return folded;
}

void FuzzChain(ByteSpan bytes) {
  Part part;
  if (!SucceedsOrIsNewer([&] { part = Part::Open(bytes); })) return;
  const Base& base = BaseOf(part);
  bool folded = false;
  Succeeds([&] { folded = Fold(base, {{&part}}); });
  if (!folded) return;
  Succeeds([&] { Fold(base, {{&part}, {&part}}); });
  const bool twice = Succeeds([&] { Chain(base.table, {{&part, &part}}); });
  Require(!twice || (part.chunks().empty() && part.files().empty()),
          "a chunk or file is in two parts of one patch");
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isthmus::fuzz::FuzzChain(isthmus::fuzz::BytesOf(data, size));
  return 0;
}
