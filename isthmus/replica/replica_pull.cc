// Pull: choose a chain, fetch it, and bring the files along it: in place from the version held, or
// beside it from an anchor.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "isthmus/replica/chain_apply.h"
#include "isthmus/replica/chain_search.h"
#include "isthmus/replica/fetch.h"
#include "isthmus/replica/journal.h"
#include "isthmus/replica/replica.h"
#include "isthmus/replica/staged_swap.h"

namespace isthmus::replica {
namespace {

using board::kNoVersion;
using board::Manifest;
using board::Payload;
using board::VersionNumber;

// A payload that cannot be used. Another chain may avoid it.
struct PayloadFault {
  PlannedPayload payload;
  Error error;
};

// Runs `use` of a payload; damage is the payload's fault.
template <typename Use>
void BlamePayload(const PlannedPayload& planned, const Use& use) {
  try {
    use();
  } catch (const Error& error) {
    if (!MeansDamage(error)) throw;
    throw PayloadFault{planned, error};
  }
}

void FetchChain(const board::Board& board, const ChainSearch& search,
                std::span<const PlannedPayload> patches, ThreadPool& pool, Progress& progress,
                FetchedPatches* fetched) {
  for (const PlannedPayload& planned : patches) {
    BlamePayload(planned,
                 [&] { fetched->Add(board.store(), search.PayloadOf(planned), pool, progress); });
  }
}

ReplicaState StateFor(const board::Board& board, const Manifest& manifest) {
  return {board.uuid(), manifest.run, manifest.version, manifest.digest, BootId()};
}

std::string Lost(std::string_view why) {
  return fmt::format("{}; the replica is at no version now, the next pull repairs it", why);
}

}  // namespace

VersionFacts FactsOf(const Manifest& manifest) {
  VersionFacts facts{manifest.version,  std::nullopt,        manifest.changed,
                     manifest.elements, manifest.created_at, {}};
  for (const Payload& payload : manifest.payloads) {
    const bool from_parent =
        payload.kind == board::PayloadKind::kPatch && payload.base == manifest.parent;
    if (from_parent)
      facts.patch_bytes = std::min(facts.patch_bytes.value_or(~uint64_t{0}), payload.bytes());
  }
  size_t meta_bytes = 0;
  for (const auto& [key, value] : manifest.meta) meta_bytes += key.size() + value.size();
  if (meta_bytes <= kMaxShownMetaBytes) facts.meta = manifest.meta;
  return facts;
}

PullResult Replica::Pull(const board::Board& board, const std::string& run, VersionNumber version) {
  CheckFollows(board, run);
  PullResult result;
  result.from = state_ ? state_->version : kNoVersion;
  result.to = version;
  ChainSearch search(board, run, version);
  for (;;) {
    const VersionNumber held = state_ ? state_->version : kNoVersion;
    const Plan plan = search.Next(held, state_ ? state_->digest : Sha256Digest());
    try {
      RunPlan(board, search, plan, &result.changes);
      for (const auto& planned : plan.payloads) result.chain.push_back(search.Describe(planned));
      result.fetched_bytes = plan.fetch_bytes;
      for (const Manifest& manifest : search.manifests()) result.read.push_back(FactsOf(manifest));
      std::ranges::copy(search.notes(), std::back_inserter(notes_));
      result.notes = std::exchange(notes_, {});
      return result;
    } catch (const PayloadFault& fault) {
      search.Blame(fault.payload, fault.error);
      notes_.push_back(fmt::format("left out a payload: {}", fault.error.what()));
    } catch (const Error& error) {
      if (state_ && MeansDamage(error) && !plan.payloads.empty() && !plan.from_anchor) {
        // The local files were verified when the change was taken back: it is about the patches.
        for (const PlannedPayload& planned : plan.payloads) search.Blame(planned, error);
        notes_.push_back(fmt::format("left out patches that lead elsewhere: {}", error.what()));
        continue;
      }
      // Still at its version, or nothing to lose, or no room: not about the local files.
      if (state_ || held == kNoVersion) throw;
      if (!MeansDamage(error)) throw Error(error.code(), Lost(error.what()));
      search.Remember(error);
      notes_.push_back(fmt::format("local files were damaged, rebuilt: {}", error.what()));
    }
  }
}

void Replica::CheckFollows(const board::Board& board, const std::string& run) const {
  if (!state_ || (state_->board == board.uuid() && state_->run == run)) return;
  Throw(ErrorCode::kInvalid,
        "pull run {} of board {} into {}: the replica follows run {} of board {}", run,
        board.uuid(), directory_.string(), state_->run, state_->board);
}

void Replica::RunPlan(const board::Board& board, const ChainSearch& search, const Plan& plan,
                      std::optional<KeptChanges>* changes) {
  if (plan.from_anchor) return Seed(board, search, plan);
  if (!plan.payloads.empty()) return Advance(board, search, plan, changes);
  try {
    Verify();  // already there: then it must be true
  } catch (const Error& error) {
    if (MeansDamage(error)) Forget();
    throw;
  }
}

void Replica::Advance(const board::Board& board, const ChainSearch& search, const Plan& plan,
                      std::optional<KeptChanges>* changes) {
  const Manifest& target = search.ManifestOf(plan.payloads.back().version);
  FetchedPatches fetched(paths_.fetch());
  FetchChain(board, search, plan.payloads, pool_, progress_, &fetched);
  const codec::Chain chain(table_, fetched.patches());
  const ReplicaState next = StateFor(board, target);
  tensor::VersionTable table;
  Journal journal(paths_, {state_->digest, target.digest});
  std::optional<ChangeRecorder> recorder;
  try {
    const auto checkpoint = tensor::Checkpoint::Open(directory_, Access::kReadWrite);
    if (keeps_changes_) {
      recorder.emplace(table_.tensors.size(), checkpoint.tensor_bytes() / 2);
    }
    table = ApplyChain(checkpoint, chain, target.digest, &journal.undo(), pool_, progress_,
                       recorder ? &*recorder : nullptr);
    WriteState(paths_, next, table);
  } catch (...) {
    TakeBack();
    throw;
  }
  if (recorder) *changes = WriteChanges(&*recorder, next, table);
  state_ = next;
  table_ = std::move(table);
  journal.Finish();
}

// The version is there, whatever becomes of this.
std::optional<KeptChanges> Replica::WriteChanges(ChangeRecorder* recorder, const ReplicaState& next,
                                                 const tensor::VersionTable& table) {
  if (recorder->overflowed()) return std::nullopt;
  const fs::path path =
      paths_.changes() / fmt::format("{}-{}.safetensors", state_->version, next.version);
  try {
    CreateDirectories(paths_.changes());
    recorder->Write(path, next.run, {state_->version, state_->digest}, {next.version, next.digest},
                    table);
    return KeptChanges{path, state_->digest};
  } catch (const Error& error) {
    notes_.push_back(fmt::format("could not keep what changed: {}", error.what()));
    return std::nullopt;
  }
}

void Replica::DropChanges() { RemoveTree(paths_.changes()); }

void Replica::TakeBack() {
  try {
    // The state may have been written before the failure: then it would speak of bytes that go.
    if (ReadState(paths_) != state_) RemoveFile(paths_.state());
    Journal::TakeBack(paths_, directory_);
    VerifyOrForget("took back a change that failed");
    Journal::Discard(paths_);
  } catch (const std::exception& error) {
    // The journal stays: the next start goes on from there. Until then, at no version.
    state_.reset();
    notes_.push_back(fmt::format("could not take back a failed change: {}", error.what()));
  }
}

tensor::VersionTable Replica::StageAnchor(const board::Board& board, const Manifest& manifest,
                                          const PlannedPayload& planned) {
  const Payload& payload = manifest.payloads[planned.index];
  RemoveTree(paths_.stage());
  for (const board::PayloadPart& part : payload.parts) {
    CreateDirectories((paths_.stage() / part.path).parent_path());
  }
  {
    const ProgressScope scope(progress_, "fetch", payload.bytes());
    pool_.ParallelFor(payload.parts.size(), [&](size_t i) {
      const board::PayloadPart& part = payload.parts[i];
      FetchPart(board.store(), part, paths_.stage() / part.path, progress_);
    });
  }
  tensor::VersionTable table =
      tensor::DigestCheckpoint(tensor::Checkpoint::Open(paths_.stage()), pool_, progress_);
  if (table.Digest() != manifest.digest) {
    Throw(ErrorCode::kCorrupt, "verify anchor of version {}: digest {}, the log says {}",
          manifest.version, FormatSha256(table.Digest()), FormatSha256(manifest.digest));
  }
  return table;
}

void Replica::Seed(const board::Board& board, const ChainSearch& search, const Plan& plan) {
  const Manifest& target = search.ManifestOf(plan.payloads.back().version);
  const PlannedPayload& anchor = plan.payloads.front();
  tensor::VersionTable table;
  BlamePayload(anchor,
               [&] { table = StageAnchor(board, search.ManifestOf(anchor.version), anchor); });
  if (plan.payloads.size() > 1) {
    FetchedPatches fetched(paths_.fetch());
    FetchChain(board, search, std::span(plan.payloads).subspan(1), pool_, progress_, &fetched);
    const codec::Chain chain(table, fetched.patches());
    table = ApplyChain(tensor::Checkpoint::Open(paths_.stage(), Access::kReadWrite), chain,
                       target.digest, nullptr, pool_, progress_);
  }
  const ReplicaState next = StateFor(board, target);
  SwapIn(paths_, directory_, next, table);
  // Of a change that could not be taken back before: it speaks of bytes that are gone.
  if (Exists(paths_.journal())) Journal::Discard(paths_);
  state_ = next;
  table_ = std::move(table);
}

}  // namespace isthmus::replica
