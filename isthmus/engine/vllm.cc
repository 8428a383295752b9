// vLLM, by the control routes of its development mode and a reload from a path.

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <set>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/engine/adapters.h"
#include "isthmus/engine/canary.h"
#include "isthmus/engine/control.h"
#include "isthmus/engine/routes.h"

namespace isthmus::engine {

namespace json = boost::json;

namespace {

constexpr std::string_view kNeeded[] = {"POST /pause", "POST /resume", "GET /is_paused",
                                        "POST /collective_rpc", "POST /reset_prefix_cache"};
constexpr std::string_view kTransfer[] = {"POST /init_weight_transfer_engine",
                                          "POST /start_weight_update", "POST /update_weights",
                                          "POST /finish_weight_update"};
constexpr int kPluginFormat = 1;
constexpr std::string_view kHint = "start vLLM with VLLM_SERVER_DEV_MODE=1 in its environment";
constexpr std::string_view kGenerate = "POST /v1/completions";

std::string_view ModeName(PauseMode mode) {
  switch (mode) {
    case PauseMode::kKeep:
      return "keep";
    case PauseMode::kWait:
      return "wait";
    case PauseMode::kAbort:
      return "abort";
  }
  return "";
}

// What Probe found.
struct Offer {
  std::set<PauseMode> modes;
  bool labels = false;
  bool tells_sleep = false;
  bool has_multimodal_cache = false;
  bool has_encoder_cache = false;
  bool generates = false;
  bool transfers = false;
  std::string salt_field;
  uint64_t workers = 1;  // at least so many answer an RPC
};

Offer OfferOf(const Routes& routes) {
  Offer offer;
  for (const PauseMode mode : {PauseMode::kKeep, PauseMode::kWait, PauseMode::kAbort}) {
    // The parameter's absence is an older interface, in which a pause without it aborts.
    const auto taken = routes.TakesQueryValue("POST /pause", "mode", ModeName(mode));
    if (taken.value_or(true)) offer.modes.insert(mode);
  }
  offer.labels = routes.Has("GET /weight_info") && routes.Has("POST /update_weight_version");
  offer.tells_sleep = routes.Has("GET /is_sleeping");
  offer.has_multimodal_cache = routes.Has("POST /reset_mm_cache");
  offer.has_encoder_cache = routes.Has("POST /reset_encoder_cache");
  offer.transfers = std::ranges::all_of(kTransfer, [&](auto route) { return routes.Has(route); });
  offer.generates = routes.Has(kGenerate) && routes.Has("GET /v1/models");
  if (offer.generates) offer.salt_field = SaltField(routes, kGenerate);
  return offer;
}

class Vllm final : public Engine {
 public:
  Vllm(net::Loop& loop, std::string name, const net::Origin& origin, EngineOptions options)
      : origin_(origin),
        limits_(options.limits),
        control_(loop, std::move(name), origin, std::move(options.bearer_token),
                 std::move(options.tls)) {}

  const std::string& name() const override { return control_.engine(); }
  const std::optional<net::Origin>& origin() const override { return origin_; }

  Task<Abilities> Probe() override {
    const Budget budget(limits_.probe);
    offer_.reset();
    session_ended_ = false;
    prepared_.reset();
    const Routes routes = co_await FetchRoutes(control_, budget);
    routes.Require(name(), kNeeded, kHint);
    Offer offer = OfferOf(routes);
    if (offer.modes.empty()) {
      Throw(ErrorCode::kInvalid,
            "{}: GET /openapi.json: POST /pause has no query parameter \"mode\", without which it "
            "aborts: use a newer vLLM (0.32 has it)",
            name());
    }
    // Without the parameter the number counts the workers of all replicas, of which an RPC shows
    // the first one's only.
    if (routes.TakesQuery("GET /get_world_size", "include_dp") == true) {
      const Answer answer = co_await control_.Get(budget, "/get_world_size?include_dp=false");
      offer.workers = answer.Json().Count("/world_size");
    }
    offer_ = std::move(offer);
    co_return Abilities{.pauses = true,
                        .keeps = offer_->modes.contains(PauseMode::kKeep),
                        .labels = offer_->labels,
                        .tells_pause = true,
                        .generates = offer_->generates,
                        .salt_field = offer_->salt_field};
  }

  Task<EngineState> Inspect() override {
    const Offer& offer = Probed();
    const Budget budget(limits_.inspect);
    EngineState state;
    state.paused = co_await IsPaused(budget);
    if (offer.labels) state.label = co_await Label(budget);
    co_return state;
  }

  // The engine core runs its calls in the order in which they came.
  Task<void> Settle() override {
    Probed();
    const json::value body = {{"method", "check_health"}};
    const Answer answer = co_await control_.Post(Budget(limits_.settle), "/collective_rpc", body);
    RequireAllDone(answer.Json(), 1);
  }

  Task<void> Pause(PauseMode mode) override {
    if (!Probed().modes.contains(mode)) {
      Throw(ErrorCode::kInvalid, "{}: POST /pause has no mode={}", name(), ModeName(mode));
    }
    const Budget budget(limits_.pause);
    co_await RefuseIfAsleep(budget);
    // In the query: a body is ignored, and then everything is aborted.
    std::string target = fmt::format("/pause?mode={}&clear_cache=true", ModeName(mode));
    const Answer answer = co_await control_.Post(budget, std::move(target));
    RequireStatus(answer.Json(), "paused");
  }

  Task<void> Load(fs::path checkpoint, std::string label) override {
    const Offer& offer = Probed();
    learned_ = false;
    const Budget budget(limits_.load);
    co_await EndSession(budget);
    const json::value body = {{"method", "reload_weights"},
                              {"kwargs", {{"weights_path", checkpoint.string()}}}};
    const Answer answer = co_await control_.Post(budget, "/collective_rpc", body);
    RequireAllDone(answer.Json(), offer.workers);
    if (offer.labels) co_await SetLabel(budget, std::move(label));
  }

  // By the plug-in (docs/python.md), if it is there.
  Task<std::string> Learn(fs::path checkpoint, std::string digest) override {
    learned_ = false;
    if (!Probed().transfers) co_return name() + " has no routes for weight transfer";
    const json::value body = {
        {"init_info",
         {{"format", kPluginFormat}, {"checkpoint", checkpoint.string()}, {"digest", digest}}}};
    const Answer answer =
        co_await control_.TryPost(Budget(limits_.load), "/init_weight_transfer_engine", body);
    try {
      answer.RequireSuccess();
    } catch (const Error& error) {
      co_return error.what();
    }
    learned_ = true;
    co_return "";
  }

  Task<void> PrepareChanges(Changes step) override {
    if (!learned_ || prepared_ == step.file) co_return;
    const Budget budget(limits_.inspect);
    co_await StartSession(budget);
    co_await SendChanges(budget, step, true);
    prepared_ = step.file;
  }

  Task<void> LoadChanges(std::vector<Changes> steps) override {
    if (!learned_) Throw(ErrorCode::kInternal, "{}: changes before it has learned", name());
    const Budget budget(limits_.load);
    for (const Changes& step : steps) {
      const bool prepared = prepared_ == step.file;
      prepared_.reset();
      if (!prepared) co_await StartSession(budget);
      co_await SendChanges(budget, step, false);
      const json::value label = {{"weight_version", step.label}};
      co_await control_.Post(budget, "/finish_weight_update", label);
      session_ended_ = true;
    }
  }

  Task<void> Flush() override {
    const Offer& offer = Probed();
    const Budget budget(limits_.flush);
    const Answer answer = co_await control_.Post(
        budget, "/reset_prefix_cache?reset_running_requests=true&reset_external=true");
    // Older releases say nothing.
    if (!answer.body().empty()) RequireDone(answer.Json());
    if (offer.has_multimodal_cache) co_await control_.Post(budget, "/reset_mm_cache");
    if (offer.has_encoder_cache) co_await control_.Post(budget, "/reset_encoder_cache");
  }

  Task<void> Verify(std::string label) override {
    if (!Probed().labels) co_return;
    const std::string found = co_await Label(Budget(limits_.verify));
    if (found == label) co_return;
    Throw(ErrorCode::kCorrupt, "{}: GET /weight_info: the weights are {:?}, expected {:?}", name(),
          found, label);
  }

  Task<void> Resume() override {
    const Budget budget(limits_.resume);
    if (prepared_) co_await EndSession(budget);  // what was prepared is not wanted after all
    const bool paused = co_await IsPaused(budget);
    if (!paused) co_return;
    const Answer answer = co_await control_.Post(budget, "/resume");
    RequireStatus(answer.Json(), "resumed");
  }

  Task<std::optional<double>> Canary() override {
    const Offer& offer = Probed();
    if (!offer.generates) co_return std::nullopt;
    const Budget budget(limits_.canary);
    const Answer models = co_await control_.Get(budget, "/v1/models");
    json::object body = {{"model", models.Json().Text("/data/0/id")},
                         {"prompt", CanaryPrompt()},
                         {"max_tokens", 1},
                         {"temperature", 0},
                         {"logprobs", 1}};
    AddFreshSalt(offer.salt_field, &body);
    const Answer answer = co_await control_.Post(budget, "/v1/completions", std::move(body));
    const Document completion = answer.Json();
    RequireUncached(completion, "/usage/prompt_tokens_details/cached_tokens");
    co_return completion.FiniteNumber("/choices/0/logprobs/token_logprobs/0");
  }

 private:
  const Offer& Probed() const {
    if (!offer_) Throw(ErrorCode::kInternal, "{}: used before Probe has succeeded", name());
    return *offer_;
  }

  Task<bool> IsPaused(Budget budget) {
    const Answer answer = co_await control_.Get(budget, "/is_paused");
    co_return answer.Json().Flag("/is_paused");
  }

  // A load into an engine that sleeps kills it. An engine that is paused says that it sleeps, too.
  Task<void> RefuseIfAsleep(Budget budget) {
    if (!offer_->tells_sleep) co_return;
    const bool paused = co_await IsPaused(budget);
    if (paused) co_return;
    const Answer answer = co_await control_.Get(budget, "/is_sleeping");
    const Document document = answer.Json();
    if (document.Flag("/is_sleeping")) {
      document.Refuse(ErrorCode::kUnavailable, "/is_sleeping", "the engine must be woken up first");
    }
  }

  Task<std::string> Label(Budget budget) {
    const Answer answer = co_await control_.Get(budget, "/weight_info");
    co_return answer.Json().Text("/weight_version");
  }

  Task<void> SetLabel(Budget budget, std::string label) {
    const json::value body = {{"new_version", label}};
    const Answer answer = co_await control_.Post(budget, "/update_weight_version", body);
    RequireDone(answer.Json());
  }

  Task<void> StartSession(Budget budget) {
    co_await EndSession(budget);
    session_ended_ = false;
    co_await control_.Post(budget, "/start_weight_update");
  }

  Task<void> SendChanges(Budget budget, const Changes& step, bool only_prepare) {
    json::object info = {
        {"format", kPluginFormat}, {"changes", step.file.string()}, {"base", step.base}};
    if (only_prepare) info["prepare"] = true;
    const json::value body = {{"update_info", std::move(info)}};
    co_await control_.Post(budget, "/update_weights", body);
  }

  // One that a failure, or a sidecar that died, has left open would keep the next from beginning.
  // Where there is none this is an error, and changes nothing.
  Task<void> EndSession(Budget budget) {
    prepared_.reset();
    if (session_ended_ || !offer_->transfers) co_return;
    co_await control_.TryPost(budget, "/finish_weight_update", json::object());
    session_ended_ = true;
  }

  static void RequireStatus(const Document& answer, std::string_view status) {
    if (answer.Text("/status") == status) return;
    answer.Refuse(ErrorCode::kCorrupt, "/status", fmt::format("expected \"{}\"", status));
  }

  static void RequireDone(const Document& answer) {
    if (answer.Flag("/success")) return;
    answer.Refuse(ErrorCode::kUnavailable, "", "the engine reports a failure");
  }

  // A worker that is done returns nothing; what failed in it may still come with status 200.
  static void RequireAllDone(const Document& answer, uint64_t workers) {
    const json::array& results = answer.Array("/results");
    for (size_t rank = 0; rank < results.size(); ++rank) {
      if (results[rank].is_null()) continue;
      answer.Refuse(ErrorCode::kUnavailable, fmt::format("/results/{}", rank),
                    "this rank reports a failure");
    }
    if (!results.empty() && results.size() >= workers) return;
    answer.Refuse(ErrorCode::kCorrupt, "/results",
                  fmt::format("expected the results of {} ranks", workers));
  }

  std::optional<net::Origin> origin_;
  EngineLimits limits_;
  Control control_;
  std::optional<Offer> offer_;
  bool learned_ = false;
  bool session_ended_ = false;        // of weight transfer, as far as is known
  std::optional<fs::path> prepared_;  // in the session that is open
};

}  // namespace

std::unique_ptr<Engine> MakeVllm(net::Loop& loop, const EngineSpec& spec,
                                 const EngineOptions& options) {
  return std::make_unique<Vllm>(loop, spec.kind + ":" + spec.target,
                                net::Origin::Parse(spec.target), options);
}

}  // namespace isthmus::engine
