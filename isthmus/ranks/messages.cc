#include "isthmus/ranks/messages.h"

#include <boost/json/array.hpp>

#include "isthmus/board/payload_json.h"

namespace isthmus::ranks {

namespace json = boost::json;
using board::JsonFields;

namespace {

constexpr size_t kAttemptDigits = 16;  // of RandomId
constexpr size_t kHoldingNumbers = 4;
constexpr size_t kLeafDigits = 2 * sizeof(Xxh128Digest);

json::object NewObject() { return {{"format", board::kBoardFormat}}; }

std::string HexOf(const std::vector<Xxh128Digest>& leaves) {
  std::string text;
  text.reserve(leaves.size() * kLeafDigits);
  for (const Xxh128Digest& leaf : leaves) text += leaf.Hex();
  return text;
}

std::vector<Xxh128Digest> ReadLeaves(const JsonFields& fields, std::string_view key) {
  const std::string text = fields.Text(key);
  if (text.size() % kLeafDigits != 0) fields.Refuse(key, "no whole digests");
  std::vector<Xxh128Digest> leaves;
  leaves.reserve(text.size() / kLeafDigits);
  for (size_t at = 0; at < text.size(); at += kLeafDigits) {
    leaves.push_back(Xxh128Digest::ParseHex(std::string_view(text).substr(at, kLeafDigits)));
  }
  return leaves;
}

ErrorCode ReadCode(const JsonFields& fields, std::string_view key) {
  const std::string name = fields.Text(key);
  for (int code = static_cast<int>(ErrorCode::kInvalid);
       code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    if (ErrorCodeName(static_cast<ErrorCode>(code)) == name) return static_cast<ErrorCode>(code);
  }
  fields.Refuse(key, "no name of an error");
}

}  // namespace

json::object ToJson(const Call& call) {
  json::object object = NewObject();
  object["version"] = call.version;
  object["attempt"] = call.attempt;
  object["step"] = call.step;
  object["ranks"] = call.ranks;
  object["outline"] = FormatSha256(call.outline);
  return object;
}

Call ReadCall(const JsonFields& fields) {
  Call call;
  call.version = fields.Count("version", 1, board::kMaxVersion);
  call.attempt = fields.Text("attempt");
  if (call.attempt.size() != kAttemptDigits ||
      call.attempt.find_first_not_of("0123456789abcdef") != std::string::npos) {
    fields.Refuse("attempt", "expected 16 hexadecimal digits");
  }
  call.step = fields.Integer("step");
  call.ranks = static_cast<uint32_t>(fields.Count("ranks", 1, kMaxRanks));
  call.outline = fields.Digest("outline");
  return call;
}

json::object ToJson(const std::vector<HeldRows>& claim) {
  json::array tensors;
  for (const HeldRows& held : claim) {
    tensors.push_back({{"name", held.name},
                       {"dtype", tensor::DtypeName(held.dtype)},
                       {"shape", json::array(held.shape.begin(), held.shape.end())},
                       {"first_row", held.first_row},
                       {"rows", held.rows}});
  }
  json::object object = NewObject();
  object["tensors"] = std::move(tensors);
  return object;
}

std::vector<HeldRows> ReadClaim(const JsonFields& fields) {
  std::vector<HeldRows> claim;
  for (const JsonFields& item : fields.Objects("tensors")) {
    HeldRows held;
    held.name = item.Text("name");
    const auto dtype = tensor::ParseDtype(item.Text("dtype"));
    if (!dtype) item.Refuse("dtype", "no name of a dtype");
    held.dtype = *dtype;
    held.shape = item.Counts("shape");
    held.first_row = item.Count("first_row");
    held.rows = item.Count("rows");
    claim.push_back(std::move(held));
  }
  return claim;
}

json::object ToJson(const std::vector<Holding>& plan) {
  json::array numbers;
  numbers.reserve(plan.size() * kHoldingNumbers);
  for (const Holding& holding : plan) {
    numbers.emplace_back(holding.rank);
    numbers.emplace_back(holding.tensor);
    numbers.emplace_back(holding.first);
    numbers.emplace_back(holding.units);
  }
  json::object object = NewObject();
  object["holdings"] = std::move(numbers);
  return object;
}

std::vector<Holding> ReadPlan(const JsonFields& fields) {
  const std::vector<uint64_t> numbers = fields.Counts("holdings");
  if (numbers.size() % kHoldingNumbers != 0) {
    fields.Refuse("holdings", "expected a rank, a tensor, a unit and units for each");
  }
  std::vector<Holding> plan;
  for (size_t i = 0; i < numbers.size(); i += kHoldingNumbers) {
    if (numbers[i] >= kMaxRanks) fields.Refuse("holdings", "no rank");
    plan.push_back(
        {static_cast<uint32_t>(numbers[i]), numbers[i + 1], numbers[i + 2], numbers[i + 3]});
  }
  return plan;
}

json::object ToJson(const std::vector<SentSlices>& sent) {
  json::array owners;
  for (const SentSlices& item : sent) {
    owners.push_back(
        {{"rank", item.owner}, {"bytes", item.bytes}, {"sha256", FormatSha256(item.sha256)}});
  }
  json::object object = NewObject();
  object["owners"] = std::move(owners);
  return object;
}

std::vector<SentSlices> ReadSentSlices(const JsonFields& fields) {
  std::vector<SentSlices> sent;
  for (const JsonFields& item : fields.Objects("owners")) {
    sent.push_back({static_cast<uint32_t>(item.Count("rank", 0, kMaxRanks - 1)),
                    item.Count("bytes"), item.Digest("sha256")});
  }
  return sent;
}

json::object ToJson(const Receipt& receipt) {
  json::array chunks;
  for (const ChunkProof& proof : receipt.chunks) {
    json::object item = {{"number", proof.chunk}, {"before", HexOf(proof.before)}};
    if (proof.changed > 0) {
      item["changed"] = proof.changed;
      item["after"] = HexOf(proof.after);
    }
    chunks.push_back(std::move(item));
  }
  json::object object = NewObject();
  object["plan"] = FormatSha256(receipt.plan);
  object["chunks"] = std::move(chunks);
  object["payload"] = board::ToJson(receipt.payload);
  return object;
}

Receipt ReadReceipt(const JsonFields& fields, const std::string& run,
                    board::VersionNumber version) {
  Receipt receipt;
  receipt.plan = fields.Digest("plan");
  for (const JsonFields& item : fields.Objects("chunks")) {
    ChunkProof proof;
    proof.chunk = item.Count("number");
    proof.before = ReadLeaves(item, "before");
    if (item.Has("changed")) proof.changed = item.Count("changed", 1);
    proof.after = proof.changed > 0 ? ReadLeaves(item, "after") : proof.before;
    receipt.chunks.push_back(std::move(proof));
  }
  receipt.payload = board::ReadPayload(fields.Object("payload"), run, version);
  if (receipt.payload.kind != board::PayloadKind::kPatch) {
    fields.Refuse("payload", "expected a patch");
  }
  return receipt;
}

json::object ToJson(const Refusal& refusal) {
  json::object object = NewObject();
  object["code"] = ErrorCodeName(refusal.code);
  object["reason"] = refusal.reason;
  object["baselines"] = refusal.baselines ? 1 : 0;
  return object;
}

Refusal ReadRefusal(const JsonFields& fields) {
  return {ReadCode(fields, "code"), fields.Text("reason"), fields.Count("baselines", 0, 1) == 1};
}

json::object ToJson(const Verdict& verdict) {
  json::object object = NewObject();
  if (verdict.digest) object["digest"] = FormatSha256(*verdict.digest);
  if (verdict.refused) object["refused"] = ToJson(*verdict.refused);
  return object;
}

Verdict ReadVerdict(const JsonFields& fields) {
  Verdict verdict;
  if (fields.Has("refused")) {
    verdict.refused = ReadRefusal(fields.Object("refused"));
  } else {
    verdict.digest = fields.Digest("digest");
  }
  return verdict;
}

}  // namespace isthmus::ranks
