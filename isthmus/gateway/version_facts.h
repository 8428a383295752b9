// Facts of versions, as sidecars report them: how large their patches are, how much changed, and
// what the publisher's meta says of Isthmus. Bounded. Hostile input. Pure; not thread-safe.
#ifndef ISTHMUS_GATEWAY_VERSION_FACTS_H_
#define ISTHMUS_GATEWAY_VERSION_FACTS_H_

#include <boost/json/value.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "isthmus/gateway/pool.h"
#include "isthmus/gateway/timelines.h"

namespace isthmus::gateway {

struct VersionFactsLimits {
  size_t runs = 16;
  size_t versions = 200;  // of one run: the newest
};

class VersionFacts {
 public:
  explicit VersionFacts(VersionFactsLimits limits) : limits_(limits) {}

  // The first report of a version counts. Runs without a listed island are forgotten.
  void Record(const std::vector<IslandFacts>& facts, Mark now);
  // Those that were recorded after `sequence`, by run and version.
  std::string ToJson(uint64_t sequence) const;

 private:
  struct Facts {
    uint64_t sequence = 0;
    std::string json;
  };
  using Versions = std::map<VersionNumber, Facts>;

  void RecordOne(const std::string& run, const boost::json::value& reported, Versions* versions,
                 Mark now) const;

  // Which versions an island told of last. Most samples bring nothing new: then no list is read.
  struct Told {
    uint64_t seen = 0;  // the last sequence in which it was listed
    std::string run;
    size_t size = 0;
    VersionNumber first = kNoVersion;
    VersionNumber last = kNoVersion;
  };
  bool ToldBefore(const IslandFacts& island, Mark now);

  VersionFactsLimits limits_;
  std::unordered_map<std::string, Told> told_;
  std::map<std::string, Versions> runs_;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_VERSION_FACTS_H_
