#include "isthmus/replica/planner.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <tuple>

#include "isthmus/base/bytes.h"

namespace isthmus::replica {
namespace {

using board::kNoVersion;
using board::Manifest;
using board::PayloadKind;
using board::VersionNumber;

struct Edge {
  VersionNumber to = kNoVersion;
  PlannedPayload payload;
  uint64_t bytes = 0;
  bool anchor = false;
};

// Price, then payloads used, then anchors used: compared in this order.
using Cost = std::tuple<uint64_t, size_t, size_t>;

struct Reached {
  Cost cost;
  VersionNumber from = kNoVersion;
  Edge edge;
};

// Edges by the version that they start from. Anchors start from kNoVersion: from anywhere.
std::multimap<VersionNumber, Edge> EdgesOf(const std::vector<Manifest>& manifests,
                                           const std::set<PlannedPayload>& unusable) {
  std::multimap<VersionNumber, Edge> edges;
  for (const Manifest& manifest : manifests) {
    for (size_t i = 0; i < manifest.payloads.size(); ++i) {
      const board::Payload& payload = manifest.payloads[i];
      const PlannedPayload planned = {manifest.version, i};
      if (unusable.contains(planned)) continue;
      const bool anchor = payload.kind == PayloadKind::kAnchor;
      edges.emplace(anchor ? kNoVersion : payload.base,
                    Edge{manifest.version, planned, payload.bytes(), anchor});
    }
  }
  return edges;
}

// Dijkstra's algorithm over the versions.
class Search {
 public:
  explicit Search(const std::multimap<VersionNumber, Edge>& edges) : edges_(edges) {}

  void Start(VersionNumber held) {
    Relax(held, {}, kNoVersion, {});
    for (auto [at, end] = edges_.equal_range(kNoVersion); at != end; ++at) {
      Relax(at->second.to, Add({}, at->second), kNoVersion, at->second);
    }
    while (!queue_.empty()) {
      const auto [cost, version] = queue_.top();
      queue_.pop();
      if (version == kNoVersion || cost != reached_.at(version).cost) continue;
      for (auto [at, end] = edges_.equal_range(version); at != end; ++at) {
        Relax(at->second.to, Add(cost, at->second), version, at->second);
      }
    }
  }

  std::optional<Plan> PathTo(VersionNumber target) const {
    if (!reached_.contains(target)) return std::nullopt;
    Plan plan;
    for (VersionNumber at = target; at != kNoVersion;) {
      const Reached& step = reached_.at(at);
      if (step.edge.to == kNoVersion) break;  // the held version
      plan.payloads.push_back(step.edge.payload);
      plan.fetch_bytes += step.edge.bytes;
      plan.from_anchor = step.edge.anchor;
      at = step.from;
    }
    std::ranges::reverse(plan.payloads);
    return plan;
  }

 private:
  // Sizes are input: a sum that does not fit is the highest price.
  static uint64_t Sum(uint64_t a, uint64_t b) {
    uint64_t sum;
    return CheckedAdd(a, b, &sum) ? sum : std::numeric_limits<uint64_t>::max();
  }

  static Cost Add(const Cost& cost, const Edge& edge) {
    const auto& [price, payloads, anchors] = cost;
    // An empty version has nothing to fetch.
    const uint64_t edge_price = edge.bytes == 0 ? 0 : Sum(edge.bytes, kPassPriceBytes);
    return {Sum(price, edge_price), payloads + 1, anchors + (edge.anchor ? 1 : 0)};
  }

  void Relax(VersionNumber version, const Cost& cost, VersionNumber from, const Edge& edge) {
    const auto [at, added] = reached_.try_emplace(version, Reached{cost, from, edge});
    if (!added && at->second.cost <= cost) return;
    at->second = {cost, from, edge};
    queue_.emplace(cost, version);
  }

  const std::multimap<VersionNumber, Edge>& edges_;
  std::map<VersionNumber, Reached> reached_;
  std::priority_queue<std::pair<Cost, VersionNumber>, std::vector<std::pair<Cost, VersionNumber>>,
                      std::greater<>>
      queue_;
};

}  // namespace

std::optional<Plan> MakePlan(const std::vector<Manifest>& manifests, VersionNumber held,
                             VersionNumber target, const std::set<PlannedPayload>& unusable) {
  const auto edges = EdgesOf(manifests, unusable);
  Search search(edges);
  search.Start(held);
  return search.PathTo(target);
}

}  // namespace isthmus::replica
