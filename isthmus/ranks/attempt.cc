#include "isthmus/ranks/attempt.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/codec/chunk_differ.h"
#include "isthmus/publish/stored_part.h"
#include "isthmus/ranks/slices.h"

namespace isthmus::ranks {
namespace {

constexpr std::string_view kSlices = "slices";
constexpr std::string_view kReceipt = "receipt";
const std::string kPlan = "plan.json";
const std::string kVerdict(kVerdictName);

std::string SlicesPartName(uint32_t from, uint32_t to) {
  return fmt::format("slices-{:05}-{:05}.part", from, to);
}

board::Manifest ReadBase(const board::Board& board, const std::string& run,
                         board::VersionNumber version) {
  std::optional<board::Manifest> manifest = board.Read(run, version);
  if (manifest) return *manifest;
  Throw(ErrorCode::kCorrupt,
        "read version {} of run {}: the lead called for the one after it, and "
        "it does not exist",
        version, run);
}

}  // namespace

Attempt::Attempt(const AttemptContext& context, const Call& call, tensor::VersionTable outline,
                 MonotonicTime deadline)
    : context_(context),
      meeting_(context.board, context.run, call, context.rank, deadline, context.progress),
      outline_(std::move(outline)),
      base_(ReadBase(context.board, context.run, call.version - 1)),
      upload_(context.board, context.run, call.version) {}

RankPublishResult Attempt::Run() {
  try {
    return RunSteps();
  } catch (const Refused&) {
    upload_.Drop();
    throw;
  } catch (const WrongBaselines& wrong) {
    const Refusal refusal = {wrong.code(), wrong.what(), true};
    upload_.Drop();
    meeting_.Fail(refusal);
    if (!meeting_.leads()) AwaitVerdict();
    throw Refused{refusal};
  } catch (const Error& error) {
    if (!told_) meeting_.Fail({error.code(), error.what(), false});
    throw;
  } catch (const std::exception& error) {
    if (!told_) meeting_.Fail({ErrorCode::kInternal, error.what(), false});
    throw;
  }
}

RankPublishResult Attempt::RunSteps() {
  Claim();
  AgreeOnPlan();
  PrepareBaseline();
  SendSlices();
  ReceiveSlices();
  EncodeOwned();
  GiveReceipt();
  if (meeting_.leads()) {
    Decide();
  } else {
    AwaitVersion();
  }
  FollowVersion();
  meeting_.RemoveOwn();
  return std::move(result_);
}

void Attempt::Claim() {
  std::vector<HeldRows> claim;
  for (const ShareTensor& tensor : context_.share) {
    claim.push_back(tensor.held);
    holdings_.push_back(HoldingOf(outline_, context_.rank, tensor.held));
  }
  meeting_.Create(Meeting::NameOf(kClaimKind, context_.rank), ToJson(claim));
}

void Attempt::AgreeOnPlan() {
  if (meeting_.leads()) {
    std::vector<Holding> holdings = CollectClaims();
    assignment_.emplace(outline_, holdings, meeting_.call().ranks);
    plan_ = meeting_.Create(kPlan, ToJson(holdings));
  } else {
    plan_ = meeting_.Await(kPlan);
    std::vector<Holding> holdings = meeting_.Parse(kPlan, plan_, ReadPlan);
    CheckPlanned(holdings);
    assignment_.emplace(outline_, std::move(holdings), meeting_.call().ranks);
  }
  new_chunks_.emplace(*assignment_, context_.rank, context_.share, holdings_);
}

// What this rank holds must stand in the plan as it claimed it.
void Attempt::CheckPlanned(const std::vector<Holding>& plan) const {
  std::vector<Holding> planned;
  std::ranges::copy_if(plan, std::back_inserter(planned),
                       [this](const Holding& holding) { return holding.rank == context_.rank; });
  std::vector<Holding> held = holdings_;
  std::erase_if(held, [](const Holding& holding) { return holding.units == 0; });
  std::ranges::sort(planned);
  std::ranges::sort(held);
  if (planned == held) return;
  Throw(ErrorCode::kCorrupt, "read {}: it gives rank {} other rows than it claimed",
        meeting_.Key(kPlan), context_.rank);
}

std::vector<Holding> Attempt::CollectClaims() {
  const std::vector<std::string> claims = meeting_.Gather(kClaimKind);
  std::vector<Holding> holdings;
  for (uint32_t rank = 0; rank < claims.size(); ++rank) {
    const auto claim = meeting_.Parse(Meeting::NameOf(kClaimKind, rank), claims[rank], ReadClaim);
    for (const HeldRows& held : claim) {
      holdings.push_back(HoldingOf(outline_, rank, held));
      if (holdings.back().units == 0) holdings.pop_back();
    }
  }
  return holdings;
}

void Attempt::PrepareBaseline() {
  const bool anew = context_.baseline.Prepare(context_.board, base_, outline_, assignment(),
                                              context_.rank, context_.pool, context_.progress);
  if (anew) result_.notes.emplace_back("the baseline was built anew from the board");
  result_.baseline_bytes = context_.baseline.bytes();
}

void Attempt::CopyOld(const Slice& slice, MutableByteSpan to) const {
  if (assignment().Owner(slice.chunk) != context_.rank) {
    std::ranges::copy(context_.baseline.Bytes(slice), to.begin());
    return;
  }
  const uint64_t unit_bytes = to.size() / slice.units;
  std::ranges::copy(OldOwned(slice.chunk).subspan(slice.first * unit_bytes, to.size()), to.begin());
}

ByteSpan Attempt::OldOwned(size_t chunk) const { return context_.baseline.Bytes({chunk, 0, 0}); }

void Attempt::SendSlices() {
  const auto before = [this](const Slice& slice, MutableByteSpan to) { CopyOld(slice, to); };
  const auto after = [this](const Slice& slice, MutableByteSpan to) {
    new_chunks_->CopyHeld(slice, to);
  };
  std::vector<SentSlices> sent;
  for (const auto& [owner, slices] : assignment().SlicesOf(context_.rank)) {
    const ByteVector part = EncodeSlices(assignment().layout(), slices, before, after,
                                         context_.options.encoding, context_.pool);
    meeting_.Put(SlicesPartName(context_.rank, owner), part);
    sent.push_back({owner, part.size(), Sha256(part)});
    result_.sent_bytes += part.size();
  }
  if (!sent.empty()) meeting_.Create(Meeting::NameOf(kSlices, context_.rank), ToJson(sent));
}

void Attempt::ReceiveSlices() {
  for (uint32_t sender = 0; sender < meeting_.call().ranks; ++sender) {
    const auto& slices = assignment().SlicesOf(sender);
    const auto mine = slices.find(context_.rank);
    if (mine != slices.end()) TakeSlicesFrom(sender, mine->second);
  }
}

void Attempt::TakeSlicesFrom(uint32_t sender, const std::vector<Slice>& slices) {
  const std::string name = Meeting::NameOf(kSlices, sender);
  const auto sent = meeting_.Parse(name, meeting_.Await(name), ReadSentSlices);
  const auto mine = std::ranges::find(sent, context_.rank, &SentSlices::owner);
  if (mine == sent.end()) {
    Throw(ErrorCode::kCorrupt, "take the slices of rank {}: it sent none to rank {}", sender,
          context_.rank);
  }
  const std::string key = meeting_.Key(SlicesPartName(sender, context_.rank));
  const auto part = context_.board.store().Get(key, mine->bytes);
  if (!part || part->size() != mine->bytes || Sha256(AsBytes(*part)) != mine->sha256) {
    Throw(ErrorCode::kCorrupt, "take the slices of rank {}: {} is not what it says it sent", sender,
          key);
  }
  const auto before = [this](const Slice& slice, MutableByteSpan to) { CopyOld(slice, to); };
  std::vector<ByteVector> bytes =
      DecodeSlices(assignment().layout(), slices, before, AsBytes(*part), sender);
  for (size_t i = 0; i < slices.size(); ++i) new_chunks_->Receive(slices[i], std::move(bytes[i]));
}

void Attempt::EncodeOwned() {
  const codec::ChunkLayout& layout = assignment().layout();
  const std::vector<size_t>& owned = assignment().OwnedBy(context_.rank);
  codec::ChunkEncoder encoder(
      layout, context_.options.encoding,
      [this](size_t chunk, ByteVector*) { return OldOwned(chunk); },
      [this](size_t chunk, ByteVector* scratch) { return new_chunks_->Owned(chunk, scratch); },
      context_.pool);
  codec::PartBuilder part;
  std::map<std::string, uint64_t> encodings;
  const ProgressScope scope(context_.progress, "compare", context_.baseline.bytes());
  codec::EncodeInBatches(encoder, owned, [&](size_t chunk, codec::ChunkOutcome outcome) {
    context_.progress.Advance(layout.chunks()[chunk].bytes());
    ChunkProof proof = {chunk, outcome.changed, {}, {}};
    for (const codec::PieceScan& piece : outcome.pieces) {
      std::ranges::copy(piece.old_leaves, std::back_inserter(proof.before));
      std::ranges::copy(piece.new_leaves, std::back_inserter(proof.after));
    }
    receipt_.chunks.push_back(std::move(proof));
    codec::ChunkDiff diff = codec::ToChunkDiff(outline_, layout, chunk, std::move(outcome));
    if (diff.encoded.payload.empty()) return;
    ++encodings[std::string(codec::EncodingName(diff.encoded.encoding))];
    codec::AddChunkDiff(std::move(diff), &part);
    if (part.payload_bytes() >= context_.options.part_bytes) upload_.AddPart(&part);
  });
  upload_.AddPart(&part);
  receipt_.payload = {board::PayloadKind::kPatch, base_.version, codec::JoinEncodings(encodings),
                      upload_.parts()};
  result_.owned_chunks = owned.size();
  result_.uploaded_bytes = receipt_.payload.bytes();
}

void Attempt::GiveReceipt() {
  if (context_.check_unchanged) context_.check_unchanged();
  receipt_.plan = Sha256(AsBytes(plan_));
  const auto object = ToJson(receipt_);
  upload_.Keep();  // from here on the lead may commit them
  meeting_.Create(Meeting::NameOf(kReceipt, context_.rank), object);
}

void Attempt::Decide() {
  std::vector<Receipt> receipts;
  for (const std::string& text : meeting_.Gather(kReceipt)) {
    const auto rank = static_cast<uint32_t>(receipts.size());
    receipts.push_back(
        meeting_.Parse(Meeting::NameOf(kReceipt, rank), text, [this](const auto& fields) {
          return ReadReceipt(fields, context_.run, meeting_.call().version);
        }));
  }
  const ProvenVersion proven = ProveReceipts(outline_, assignment(), receipt_.plan, receipts);
  if (proven.base.Digest() != base_.digest) {
    throw WrongBaselines(ErrorCode::kCorrupt,
                         fmt::format("prove the baselines: together they are not version {} of "
                                     "run {}",
                                     base_.version, context_.run));
  }
  CheckParts(proven.payload);
  result_.manifest = DraftManifest(proven);
  context_.board.CheckWriter(context_.writer);
  meeting_.Create(kVerdict, ToJson(Verdict{result_.manifest.digest, std::nullopt}));
  told_ = true;
  context_.board.Commit(context_.writer, result_.manifest);
}

// What a version names must be there before it exists.
void Attempt::CheckParts(const board::Payload& payload) const {
  context_.pool.ParallelFor(payload.parts.size(), [&](size_t i) {
    const board::PayloadPart& part = payload.parts[i];
    const std::string wrong = publish::WrongSizeOf(context_.board.store(), part);
    if (wrong.empty()) return;
    Throw(ErrorCode::kCorrupt, "prove coverage: a receipt names {}, which {}", part.key, wrong);
  });
}

board::Manifest Attempt::DraftManifest(const ProvenVersion& proven) const {
  board::Manifest manifest = base_;
  manifest.fork.reset();  // said by a run's first version only
  manifest.version = meeting_.call().version;
  manifest.parent = base_.version;
  manifest.epoch = context_.writer.epoch;
  manifest.step = meeting_.call().step;
  manifest.digest = proven.next.Digest();
  manifest.changed = proven.changed;
  manifest.payloads = {proven.payload};
  manifest.payloads.front().base = base_.version;
  manifest.meta = context_.options.meta;
  manifest.created_at = SystemClock().Now();
  manifest.producer = "isthmus " ISTHMUS_VERSION;
  return manifest;
}

// Throws Refused if it is that.
Verdict Attempt::AwaitVerdict() {
  Verdict verdict = meeting_.Parse(kVerdict, meeting_.Await(kVerdict), ReadVerdict);
  if (verdict.refused) throw Refused{*verdict.refused};
  return verdict;
}

void Attempt::AwaitVersion() {
  const Verdict verdict = AwaitVerdict();
  told_ = true;
  result_.manifest = meeting_.AwaitCommit();
  if (result_.manifest.digest == *verdict.digest) return;
  Throw(ErrorCode::kConflict,
        "publish version {} of run {}: another one was committed, {} instead "
        "of {}",
        result_.manifest.version, context_.run, FormatSha256(result_.manifest.digest),
        FormatSha256(*verdict.digest));
}

// The version exists, so a baseline that cannot follow now is no failure of the publish.
void Attempt::FollowVersion() {
  try {
    const codec::ChunkLayout& layout = assignment().layout();
    context_.baseline.BeginChange();
    for (const ChunkProof& proof : receipt_.chunks) {
      if (proof.changed == 0) continue;
      ByteVector scratch;
      const ByteSpan bytes = new_chunks_->Owned(proof.chunk, &scratch);
      context_.baseline.Write({proof.chunk, 0, layout.chunks()[proof.chunk].units}, bytes);
    }
    for (const auto& [owner, slices] : assignment().SlicesOf(context_.rank)) {
      for (const Slice& slice : slices) {
        ByteVector bytes(context_.baseline.Bytes(slice).size());
        new_chunks_->CopyHeld(slice, bytes);
        context_.baseline.Write(slice, bytes);
      }
    }
    if (context_.check_unchanged) context_.check_unchanged();
    context_.baseline.EndChange(result_.manifest);
  } catch (const std::exception& error) {
    result_.notes.push_back(fmt::format(
        "the baseline could not follow, the next publish builds it anew: {}", error.what()));
  }
}

}  // namespace isthmus::ranks
