// Makes one JSON value of an answer while its bytes pass: docs/rollouts.md, "What is recorded" and
// "The answer of a stream". Pure; only for answers of status 2xx that are recorded.
#ifndef ISTHMUS_GATEWAY_ROLLOUT_COLLECTOR_H_
#define ISTHMUS_GATEWAY_ROLLOUT_COLLECTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "isthmus/net/byte_budget.h"

namespace isthmus::gateway {

// How many choices the answer will have, by the body of the request: "n" ("sampling_params.n") for
// each prompt of "prompt", "text" or "input_ids". 1 for what cannot be read.
uint64_t ExpectedChoices(std::string_view request_body);

class RolloutCollector {
 public:
  enum class Form {
    kOnePiece,  // JSON
    kEvents,    // server-sent events (lane::IsEventStream)
  };

  // Holds about max_bytes at most, of what `all` collectors may: beyond, the answer is cut, but its
  // end is still watched for. `all` must outlive this.
  RolloutCollector(Form form, uint64_t expected_choices, size_t max_bytes, net::ByteBudget& all);
  ~RolloutCollector();
  RolloutCollector(RolloutCollector&& other) noexcept;
  RolloutCollector& operator=(RolloutCollector&& other) noexcept;

  // The next bytes, cut anywhere. Never throws for what they are: an event that is no JSON brings
  // nothing.
  void Feed(std::string_view piece);
  // The answer has come whole: its framing says so. Not for an answer that broke off.
  void End();

  // For streams also true before End, with the event that ends the last of the expected choices.
  bool finished() const;
  // A stream whose last event has come, even if its framing does not say so yet.
  bool ended() const;
  // One line of JSON; empty if there is nothing that could be kept. Once, at the end.
  std::string TakeAnswer();
  // What TakeAnswer gave is not all of the answer.
  bool cut() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_ROLLOUT_COLLECTOR_H_
