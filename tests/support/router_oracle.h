// docs/gateway.md, "Choosing an island", once more: plain lists, whole numbers, no haste.
#ifndef ISTHMUS_TESTS_SUPPORT_ROUTER_ORACLE_H_
#define ISTHMUS_TESTS_SUPPORT_ROUTER_ORACLE_H_

#include <functional>
#include <set>

#include "isthmus/gateway/router.h"

namespace isthmus::testing {

struct RouterAnswer {
  gateway::Verdict verdict = gateway::Verdict::kNoIsland;
  std::set<uint32_t> islands;  // any of them will do; with a session there is one
  bool alternatives = false;
  gateway::VersionNumber newest = gateway::kNoVersion;  // unless kSend
};

// Shares must be multiples of 1/16. `score` orders the islands of a session.
RouterAnswer RouterOracle(
    const gateway::Ask& ask, const gateway::Snapshot& snapshot,
    const std::function<uint64_t(std::string_view, const gateway::IslandView&)>& score);

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_ROUTER_ORACLE_H_
