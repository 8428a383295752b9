// SGLang, by its Python frontend's pause, update from disk and flush.

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/engine/adapters.h"
#include "isthmus/engine/canary.h"
#include "isthmus/engine/control.h"
#include "isthmus/engine/routes.h"
#include "isthmus/net/within.h"

namespace isthmus::engine {

namespace json = boost::json;

namespace {

constexpr std::string_view kNeeded[] = {
    "POST /pause_generation", "POST /continue_generation", "POST /update_weights_from_disk",
    "POST /flush_cache",      "GET /model_info",           "GET /server_info",
    "GET /v1/loads"};
constexpr std::string_view kHint =
    "use a release of SGLang that has them (0.5.23 does), with its Python frontend";
constexpr std::string_view kGenerate = "POST /generate";

// Between two looks at the number of requests; draining takes seconds.
constexpr net::Milliseconds kPollInterval(50);

// What Probe found.
struct Offer {
  bool tells_ready = false;
  bool generates = false;
  std::string salt_field;
  std::optional<std::string> load_format;  // that of the weights now served
};

class Sglang final : public Engine {
 public:
  Sglang(net::Loop& loop, std::string name, const net::Origin& origin, EngineOptions options)
      : origin_(origin),
        limits_(options.limits),
        control_(loop, std::move(name), origin, std::move(options.bearer_token),
                 std::move(options.tls)) {}

  const std::string& name() const override { return control_.engine(); }
  const std::optional<net::Origin>& origin() const override { return origin_; }

  Task<Abilities> Probe() override {
    const Budget budget(limits_.probe);
    offer_.reset();
    const Routes routes = co_await FetchRoutes(control_, budget);
    routes.Require(name(), kNeeded, kHint);
    Offer offer;
    offer.tells_ready = routes.Has("GET /ready");
    offer.generates = routes.Has(kGenerate);
    if (offer.generates) offer.salt_field = SaltField(routes, kGenerate);
    const Answer answer = co_await control_.Get(budget, "/model_info");
    const Document info = answer.Json();
    info.Text("/weight_version");
    if (info.Find("/load_format") != nullptr) offer.load_format = info.Text("/load_format");
    offer_ = std::move(offer);
    co_return Abilities{.pauses = true,
                        .keeps = true,
                        .labels = true,
                        .tells_pause = false,
                        .generates = offer_->generates,
                        .salt_field = offer_->salt_field};
  }

  Task<EngineState> Inspect() override {
    Probed();
    const Budget budget(limits_.inspect);
    EngineState state;
    const bool runs = co_await IsKnownToRun(budget);
    if (runs) state.paused = false;
    state.label = co_await Label(budget);
    co_return state;
  }

  // Answered by the scheduler, which runs what it is sent in order.
  Task<void> Settle() override {
    Probed();
    const Answer answer = co_await control_.Get(Budget(limits_.settle), "/server_info");
    answer.Json().Array("/internal_states");
  }

  Task<void> Pause(PauseMode mode) override {
    Probed();
    const Budget budget(limits_.pause);
    if (mode == PauseMode::kWait) co_await AwaitIdle(budget);
    const json::value body = {{"mode", mode == PauseMode::kAbort ? "abort" : "retract"}};
    const Answer answer = co_await control_.Post(budget, "/pause_generation", body);
    RequireOk(answer.Json());
    // The pause is answered when it has been sent to the scheduler; only a scheduler that has
    // stopped can flush. And one that cannot is found out before its weights change.
    co_await control_.Post(budget, "/flush_cache?timeout=0");
  }

  Task<void> Load(fs::path checkpoint, std::string label) override {
    const Offer& offer = Probed();
    const Budget budget(limits_.load);
    // The flush is a call of its own: refused within an update it leaves new weights, which the
    // scheduler calls by their new label and /model_info by the old one.
    json::object body = {
        {"model_path", checkpoint.string()}, {"flush_cache", false}, {"weight_version", label}};
    if (offer.load_format) body["load_format"] = *offer.load_format;
    const Answer answer =
        co_await control_.Post(budget, "/update_weights_from_disk", std::move(body));
    const Document document = answer.Json();
    if (!document.Flag("/success")) {
      document.Refuse(ErrorCode::kUnavailable, "", "the engine reports a failure");
    }
  }

  Task<void> Flush() override {
    Probed();
    co_await control_.Post(Budget(limits_.flush), "/flush_cache?timeout=0");
  }

  Task<void> Verify(std::string label) override {
    Probed();
    const std::string found = co_await Label(Budget(limits_.verify));
    if (found == label) co_return;
    Throw(ErrorCode::kCorrupt, "{}: GET /model_info: the weights are {:?}, expected {:?}", name(),
          found, label);
  }

  Task<void> Resume() override {
    Probed();
    const Budget budget(limits_.resume);
    const bool runs = co_await IsKnownToRun(budget);
    if (runs) co_return;
    const json::value body = json::object();
    const Answer answer = co_await control_.Post(budget, "/continue_generation", body);
    RequireOk(answer.Json());
  }

  Task<std::optional<double>> Canary() override {
    const Offer& offer = Probed();
    if (!offer.generates) co_return std::nullopt;
    json::object body = {{"input_ids", CanaryPrompt()},
                         {"sampling_params", {{"max_new_tokens", 1}, {"temperature", 0}}},
                         {"return_logprob", true}};
    AddFreshSalt(offer.salt_field, &body);
    const Answer answer =
        co_await control_.Post(Budget(limits_.canary), "/generate", std::move(body));
    const Document output = answer.Json();
    RequireUncached(output, "/meta_info/cached_tokens");
    co_return output.FiniteNumber("/meta_info/output_token_logprobs/0/0");
  }

 private:
  const Offer& Probed() const {
    if (!offer_) Throw(ErrorCode::kInternal, "{}: used before Probe has succeeded", name());
    return *offer_;
  }

  // Whether it says that it takes requests. It may be paused or ill if it does not (503).
  Task<bool> IsKnownToRun(Budget budget) {
    if (!offer_->tells_ready) co_return false;
    const Answer answer = co_await control_.TryGet(budget, "/ready");
    if (answer.status() == 503) co_return false;
    answer.RequireSuccess();
    co_return true;
  }

  // Until no request runs or waits. Of an engine that is paused already the numbers are old, and
  // would never change.
  Task<void> AwaitIdle(Budget budget) {
    if (offer_->tells_ready) {
      const bool runs = co_await IsKnownToRun(budget);
      if (!runs) co_return;
    }
    for (;;) {
      const Answer answer = co_await control_.Get(budget, "/v1/loads");
      if (RequestsIn(answer.Json()) == 0) co_return;
      co_await net::Sleep(std::min(kPollInterval, budget.left()));
    }
  }

  static uint64_t RequestsIn(const Document& document) {
    uint64_t requests = 0;
    const json::array& replicas = document.Array("/loads");
    for (size_t i = 0; i < replicas.size(); ++i) {
      for (const std::string_view count : {"num_running_reqs", "num_waiting_reqs"}) {
        // Saturated: the sum of two hostile counts must not be zero.
        requests |= document.Count(fmt::format("/loads/{}/{}", i, count));
      }
    }
    if (replicas.empty()) document.Refuse(ErrorCode::kCorrupt, "/loads", "expected a replica");
    return requests;
  }

  Task<std::string> Label(Budget budget) {
    const Answer answer = co_await control_.Get(budget, "/model_info");
    co_return answer.Json().Text("/weight_version");
  }

  static void RequireOk(const Document& answer) {
    if (answer.Text("/status") == "ok") return;
    answer.Refuse(ErrorCode::kUnavailable, "/status", "expected \"ok\"");
  }

  std::optional<net::Origin> origin_;
  EngineLimits limits_;
  Control control_;
  std::optional<Offer> offer_;
};

}  // namespace

std::unique_ptr<Engine> MakeSglang(net::Loop& loop, const EngineSpec& spec,
                                   const EngineOptions& options) {
  return std::make_unique<Sglang>(loop, spec.kind + ":" + spec.target,
                                  net::Origin::Parse(spec.target), options);
}

}  // namespace isthmus::engine
