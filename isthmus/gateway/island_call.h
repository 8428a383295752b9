// One attempt of a request at one island, up to the first bytes of its answer: until then another
// island can still be asked.
#ifndef ISTHMUS_GATEWAY_ISLAND_CALL_H_
#define ISTHMUS_GATEWAY_ISLAND_CALL_H_

#include <memory>
#include <optional>
#include <string>

#include "isthmus/gateway/pool.h"
#include "isthmus/lane/request.h"
#include "isthmus/net/client.h"

namespace isthmus::gateway {

// Counts as in flight at its island from its construction until End or its destruction, which says
// nothing of the island.
class IslandVisit {
 public:
  IslandVisit(Pool& pool, uint32_t island) : pool_(pool), island_(island) {
    pool_.OnSent(island_, MonotonicNow());
  }
  ~IslandVisit() { End(Outcome::kAbandoned); }
  IslandVisit(const IslandVisit&) = delete;
  IslandVisit& operator=(const IslandVisit&) = delete;

  uint32_t island() const { return island_; }
  // Once; again: nothing.
  void End(Outcome outcome) {
    if (!ended_) pool_.OnEnded(island_, outcome, MonotonicNow());
    ended_ = true;
  }

 private:
  Pool& pool_;
  uint32_t island_;
  bool ended_ = false;
};

// What an island is asked. Views must live until it has answered.
struct Question {
  bool generates = true;  // its answer must be stamped
  bool timed = false;     // the request has a deadline, which the island keeps too
  lane::Constraint constraint;
  std::string run;
  std::string_view body;
};

// What an island gave, as far as it was read.
struct Reply {
  std::optional<net::Call> call;  // none: no answer
  std::string begun;              // the first bytes of the body; all of it if call->done()
  Outcome outcome = Outcome::kFailed;
  std::string failure;  // why another island should be asked; empty if this answer is the one
};

// Whether an answer's stamp keeps the promise that its island made by admitting the request: of the
// request's run, at a version that satisfies it. Says what is wrong, else nothing. Pure. A lag is
// the island's own judgement and not looked at. It may
// end below its beginning: so do islands whose version was revoked.
std::string BrokenPromise(const net::ResponseHead& head, const lane::Constraint& asked,
                          std::string_view run);
// The same of one version of an answer; `what`: "began", "ended".
std::string ExcludedVersion(const lane::Constraint& asked, VersionNumber version,
                            std::string_view what);

// Asks. An answer that begins well is read as far as is needed to be sure of something to send: the
// first piece of what may be a stream, or as much of a JSON text as fits `whole_bytes`. Never
// throws but for cancellation.
net::Task<Reply> AskIsland(net::Client& client, const net::Origin& url, const Question& question,
                           net::RequestHead head, size_t whole_bytes);

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_ISLAND_CALL_H_
