#include "isthmus/upkeep/tending.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/board/extra.h"
#include "isthmus/codec/diff.h"
#include "isthmus/publish/upload.h"
#include "isthmus/replica/chain_manifests.h"
#include "isthmus/replica/fetch.h"
#include "isthmus/upkeep/addition.h"
#include "isthmus/upkeep/anchor.h"

namespace isthmus::upkeep {
namespace {

using board::kNoVersion;
using board::Manifest;
using board::PayloadKind;
using board::VersionNumber;

// What leads from the version held to the target, fetched.
void FetchWay(const board::Board& board, const Manifest& target, const replica::ReplicaState& held,
              ThreadPool& pool, Progress& progress, replica::FetchedPatches* fetched) {
  replica::ChainManifests source(board, target.run, target.version, held.version, held.digest);
  const auto manifests = source.OnShortestWay({});
  const auto plan = replica::MakePlan(manifests, held.version, target.version, source.gone());
  if (!plan || plan->from_anchor) {
    Throw(ErrorCode::kNotFound, "squash versions {} to {} of run {}: no patches lead there",
          held.version, target.version, target.run);
  }
  for (const replica::PlannedPayload& place : plan->payloads) {
    const auto at = std::ranges::find(manifests, place.version, &Manifest::version);
    fetched->Add(board.store(), at->payloads[place.index], pool, progress);
  }
}

}  // namespace

Tender::Tender(board::Board& board, std::string run, const fs::path& directory,
               const TendPolicy& policy, ThreadPool& pool, Progress& progress)
    : board_(board),
      run_(std::move(run)),
      policy_(policy),
      pool_(pool),
      progress_(progress),
      base_(directory, pool, progress) {
  board::CheckRunName(run_);
  base_.CheckFollows(board_, run_);
  if (policy_.skip_every < 2 || policy_.most_between < policy_.skip_every ||
      !(policy_.anchor_at > 0)) {
    Throw(ErrorCode::kInvalid,
          "tend run {}: skip patches every {} versions, anchors at {} of a checkpoint and every {} "
          "versions; expected at least 2, above 0 and no less than the first",
          run_, policy_.skip_every, policy_.anchor_at, policy_.most_between);
  }
}

VersionNumber Tender::Base() const { return base_.state() ? base_.state()->version : kNoVersion; }

TendReport Tender::Tend() {
  TendReport report;
  const VersionNumber head = board_.Head(run_);
  if (head == kNoVersion) return report;
  FindWhatIsThere(head, &report);
  while (looked_at_ < head) {
    const VersionNumber version = looked_at_ + 1;
    const std::optional<Manifest> manifest = board_.Read(run_, version);
    if (!manifest) {
      Throw(ErrorCode::kCorrupt, "tend run {}: version {} has no log entry, {} exists", run_,
            version, head);
    }
    if (manifest->has_anchor()) {
      MoveBase(version, &report);
      continue;
    }
    const uint64_t bytes = bytes_ + manifest->payload_bytes();
    const uint64_t behind = version - Base();
    if (behind % policy_.skip_every == 0) {
      const bool due = static_cast<double>(bytes) >=
                       policy_.anchor_at * static_cast<double>(manifest->checkpoint_bytes);
      if (due || behind >= policy_.most_between) {
        AddAnchorAt(version, &report);
        continue;
      }
      if (version > skipped_to_) AddSkipTo(*manifest, &report);
    }
    looked_at_ = version;
    bytes_ = bytes;
  }
  return report;
}

void Tender::MoveBase(VersionNumber version, TendReport* report) {
  replica::PullResult pulled = base_.Pull(board_, run_, version);
  std::ranges::move(pulled.notes, std::back_inserter(report->notes));
  looked_at_ = version;
  bytes_ = 0;
}

// What this one, or another before it, has added.
void Tender::FindWhatIsThere(VersionNumber head, TendReport* report) {
  const std::vector<board::Extra> extras = board::ListExtras(board_, run_);
  VersionNumber anchor = 1;
  for (const board::Extra& extra : extras) {
    if (extra.kind == PayloadKind::kAnchor && extra.version <= head) anchor = extra.version;
  }
  // A log entry's own anchor may be newer: then it is come to on the way.
  if (Base() < anchor) MoveBase(anchor, report);
  if (looked_at_ < Base()) looked_at_ = Base();
  for (const board::Extra& extra : extras) {
    if (extra.base == Base()) skipped_to_ = std::max(skipped_to_, extra.version);
  }
}

void Tender::AddAnchorAt(VersionNumber version, TendReport* report) {
  MoveBase(version, report);
  report->stored_bytes += AddAnchor(board_, run_, version, base_.directory(), pool_, progress_);
  report->added.push_back(fmt::format("anchor {}", version));
}

void Tender::AddSkipTo(const Manifest& manifest, TendReport* report) {
  const replica::ReplicaState held = *base_.state();
  replica::FetchedPatches fetched(replica::ControlPaths(base_.directory()).fetch());
  FetchWay(board_, manifest, held, pool_, progress_, &fetched);
  publish::Upload upload(board_, run_, manifest.version);
  codec::PartBuilder part;
  const codec::DiffResult squashed = codec::SquashPatches(
      tensor::Checkpoint::Open(base_.directory()), fetched.patches(), {}, pool_, progress_,
      [&](codec::ChunkDiff change) {
        codec::AddChunkDiff(std::move(change), &part);
        if (part.payload_bytes() >= policy_.part_bytes) upload.AddPart(&part);
      },
      &part);
  upload.AddPart(&part);
  if (squashed.base.Digest() != held.digest || squashed.next.Digest() != manifest.digest) {
    Throw(ErrorCode::kCorrupt,
          "squash versions {} to {} of run {}: from {} to {}, the log says from {} to {}",
          held.version, manifest.version, run_, FormatSha256(squashed.base.Digest()),
          FormatSha256(squashed.next.Digest()), FormatSha256(held.digest),
          FormatSha256(manifest.digest));
  }
  const board::Payload skip = {PayloadKind::kPatch, held.version,
                               codec::JoinEncodings(squashed.encodings), upload.parts()};
  if (!AddUploaded(board_, manifest, skip, &upload)) return;
  report->stored_bytes += skip.bytes();
  report->added.push_back(fmt::format("patch {} from {}", manifest.version, held.version));
}

}  // namespace isthmus::upkeep
