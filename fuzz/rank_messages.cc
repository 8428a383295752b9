// What ranks tell each other: the first byte chooses the message. Plans and receipts that can be
// read are also used.
#include "fuzz/fuzz.h"
#include "isthmus/ranks/proof.h"

namespace isthmus::fuzz {
namespace {

using namespace isthmus::ranks;  // NOLINT(google-build-using-namespace): they are what this is
                                 // about

tensor::VersionTable SmallOutline() {
  tensor::VersionTable table;
  table.shards.push_back({"s", {}});
  table.tensors.push_back({"a", tensor::Dtype::kBf16, {4, 8}, "s", {}});
  table.tensors.push_back({"b", tensor::Dtype::kF4, {3, 3, 2}, "s", {}});
  return table;
}

// A message of the kind is read; what is read and written is read again as the same.
template <typename Read>
void FuzzMessage(std::string_view text, const Read& read) {
  SucceedsOrIsNewer([&] {
    const auto document = board::ParseJson(text);
    const board::JsonFields fields(document, "");
    fields.CheckFormat();
    const auto message = read(fields);
    const boost::json::value again = ToJson(message);
    const auto written = read(board::JsonFields(again, ""));
    Require(ToJson(written) == again.get_object(), "a message is written otherwise");
  });
}

std::vector<HeldRows> UseClaim(const board::JsonFields& fields) {
  std::vector<HeldRows> claim = ReadClaim(fields);
  for (const HeldRows& held : claim) {
    Succeeds([&] { HoldingOf(SmallOutline(), 1, held); }, {ErrorCode::kInvalid});
  }
  return claim;
}

std::vector<Holding> UsePlan(const board::JsonFields& fields) {
  std::vector<Holding> plan = ReadPlan(fields);
  Succeeds([&] { Assignment(SmallOutline(), plan, 3); }, {ErrorCode::kInvalid});
  return plan;
}

Receipt UseReceipt(const board::JsonFields& fields) {
  Receipt receipt = ReadReceipt(fields, "r", 2);
  const Assignment assignment(SmallOutline(), {{0, 0, 0, 32}, {0, 1, 0, 9}}, 1);
  Succeeds([&] { ProveReceipts(SmallOutline(), assignment, receipt.plan, {receipt}); });
  return receipt;
}

void FuzzMessages(uint8_t kind, std::string_view text) {
  switch (kind % 7) {
    case 0:
      return FuzzMessage(text, ReadCall);
    case 1:
      return FuzzMessage(text, UseClaim);
    case 2:
      return FuzzMessage(text, UsePlan);
    case 3:
      return FuzzMessage(text, ReadSentSlices);
    case 4:
      return FuzzMessage(text, UseReceipt);
    case 5:
      return FuzzMessage(text, ReadRefusal);
    default:
      return FuzzMessage(text, ReadVerdict);
  }
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isthmus::fuzz::Input input(data, size);
  const uint8_t kind = input.U8();
  isthmus::fuzz::FuzzMessages(kind, isthmus::AsText(input.rest()));
  return 0;
}
