// How libFuzzer changes parts: mostly one thing inside of one, the rest made to fit (loose_part.h).
#include <array>
#include <random>

#include "fuzz/loose_part.h"
#include "fuzz/sparse_models.h"
#include "isthmus/codec/frame.h"
#include "isthmus/codec/part_layout.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed);

namespace isthmus::fuzz {
namespace {

using Random = std::minstd_rand;

constexpr uint64_t kMaxContent = uint64_t{1} << 20;

void MutateBytes(ByteVector* bytes) {
  constexpr size_t kGrowth = 32;
  const size_t size = bytes->size();
  bytes->resize(size + kGrowth);
  bytes->resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes->data()), size, bytes->size()));
}

template <typename Number>
void MutateNumber(Number* number) {
  LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(number), sizeof *number, sizeof *number);
}

// Frames are changed within, or as they stand.
void MutateFrame(bool within, ByteVector* frame) {
  std::optional<ByteVector> content;
  if (within) content = Unframe(*frame, kMaxContent);
  if (!content) return MutateBytes(frame);
  MutateBytes(&*content);
  frame->clear();
  codec::AppendFrame(*content, frame);
}

// A random element, nullptr if there is none.
template <typename Element>
Element* Any(std::vector<Element>* elements, Random* random) {
  if (elements->empty()) return nullptr;
  return &(*elements)[(*random)() % elements->size()];
}

// Removes one, or doubles it, or swaps two.
template <typename Element>
void MutateList(std::vector<Element>* elements, Random* random) {
  Element* const one = Any(elements, random);
  if (one == nullptr) return;
  switch ((*random)() % 3) {
    case 0:
      elements->erase(elements->begin() + (one - elements->data()));
      return;
    case 1: {
      Element copy = *one;
      elements->push_back(std::move(copy));
      return;
    }
    default:
      std::swap(*one, *Any(elements, random));
  }
}

void MutateTensor(LoosePart* part, Random* random) {
  LoosePart::Tensor* const tensor = Any(&part->tensors, random);
  if (tensor == nullptr) return;
  if ((*random)() % 8 == 0) return MutateNumber(&tensor->sum_change);
  MutateBytes(&tensor->entry);
}

void MutateModel(LoosePart* part, Random* random) {
  ByteVector* const model = Any(&part->models, random);
  if (model == nullptr || (*random)() % 4 == 0) {
    ByteWriter out;
    SparseModels()[(*random)() % SparseModels().size()].Write(&out);
    part->models.push_back(out.Release());
    return;
  }
  MutateBytes(model);
}

void MutatePayload(LoosePart* part, Random* random) {
  LoosePart::Chunk* const chunk = Any(&part->chunks, random);
  if (chunk == nullptr) return;
  MutateFrame(chunk->encoding < 2 && (*random)() % 2 == 0, &chunk->payload);
}

void MutateChunk(LoosePart* part, Random* random) {
  LoosePart::Chunk* const chunk = Any(&part->chunks, random);
  if (chunk == nullptr) return;
  switch ((*random)() % 4) {
    case 0:
      chunk->encoding = static_cast<uint8_t>((*random)() % 5);
      break;
    case 1:
      chunk->skipped = (*random)() % 4;
      break;
    case 2:
      MutateNumber(&chunk->skipped);
      break;
    default:
      chunk->model = (*random)() % (part->models.size() + 1);
  }
}

void MutateFile(LoosePart* part, Random* random) {
  LoosePart::File* const file = Any(&part->files, random);
  if (file == nullptr) return;
  switch ((*random)() % 5) {
    case 0:
      return MutateBytes(&file->path);
    case 1:
      file->kind = static_cast<uint8_t>((*random)() % 4);
      return;
    case 2:
      return MutateNumber(&file->raw_bytes);
    default:
      MutateFrame((*random)() % 2 == 0, &file->payload);
      if (const auto content = Unframe(file->payload, kMaxContent)) {
        file->raw_bytes = content->size();
        file->sha256 = Sha256(*content);
      }
  }
}

void MutateLists(LoosePart* part, Random* random) {
  switch ((*random)() % 4) {
    case 0:
      return MutateList(&part->tensors, random);
    case 1:
      return MutateList(&part->models, random);
    case 2:
      return MutateList(&part->chunks, random);
    default:
      return MutateList(&part->files, random);
  }
}

void MutateHeader(LoosePart* part, Random* /*random*/) {
  LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(part->header.data()), part->header.size(),
                   part->header.size());
}

std::optional<ByteVector> MutateWithin(ByteSpan bytes, Random* random) {
  std::optional<LoosePart> part = TakeApart(bytes);
  if (!part) return std::nullopt;
  using Mutation = void (*)(LoosePart*, Random*);
  constexpr std::array<Mutation, 10> kMutations = {
      MutatePayload, MutatePayload, MutatePayload, MutateTensor, MutateModel,
      MutateModel,   MutateChunk,   MutateFile,    MutateLists,  MutateHeader};
  kMutations[(*random)() % kMutations.size()](&*part, random);
  return part->Write();
}

std::optional<ByteVector> MutateTables(ByteSpan bytes) {
  std::optional<ByteVector> tables = TablesOf(bytes);
  if (!tables) return std::nullopt;
  MutateBytes(&*tables);
  return WithTables(bytes, *tables);
}

std::optional<ByteVector> Mutate(ByteSpan bytes, Random* random) {
  const auto choice = (*random)() % 16;
  if (choice == 0) return std::nullopt;  // bytes as they stand
  if (choice > 3) {
    if (auto mutated = MutateWithin(bytes, random)) return mutated;
  }
  return MutateTables(bytes);
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  isthmus::fuzz::Random random(seed);
  const auto mutated = isthmus::fuzz::Mutate(std::as_bytes(std::span(data, size)), &random);
  if (!mutated || mutated->size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, mutated->data(), mutated->size());
  return mutated->size();
}
