#include "isthmus/relay/relay.h"

#include <boost/json/serialize.hpp>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/relay/answers.h"

namespace isthmus::relay {
namespace {

using net::Task;

constexpr uint64_t kMaxRequestBodyBytes = 4096;
constexpr std::string_view kJson = "application/json";
constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

std::string ToText(const boost::json::object& object) {
  return boost::json::serialize(object) + "\n";
}

bool IsHealth(const net::RequestHead& request) {
  return request.target == "/health" || request.target.starts_with("/health?");
}

std::shared_ptr<DiskCache> OpenCache(const RelayOptions& options) {
  if (!options.cache) return nullptr;
  return std::make_shared<DiskCache>(*options.cache, options.cache_bytes);
}

net::ServerOptions ServerOptionsOf(const RelayOptions& options) {
  net::ServerOptions server = options.server;
  server.tls = options.access.tls;
  server.limits.body_bytes = kMaxRequestBodyBytes;
  return server;
}

}  // namespace

Relay::Relay(net::Loop& loop, RelayOptions options)
    : options_(std::move(options)),
      events_(options_.event_log),
      cache_(OpenCache(options_)),
      errands_(loop),
      rate_(options_.client_bytes_per_s),
      access_(options_.access) {
  OpenBoard();
  objects_ = std::make_unique<Objects>(errands_, *origin_, cache_);
  watches_ = std::make_unique<WatchHub>(
      errands_,
      WatchHub::Options{.ask = [this](std::string run) { return origin_->Head(std::move(run)); },
                        .poll = options_.poll,
                        .on_news = [this](const std::string& run) { objects_->ForgetRun(run); }});
  server_ =
      std::make_unique<net::Server>(loop, ServerOptionsOf(options_),
                                    [this](net::Exchange& exchange) { return Handle(exchange); });
}

Relay::~Relay() = default;

void Relay::OpenBoard() {
  const auto open = [location = options_.board, reach = options_.store] {
    return store::OpenStore(location, reach);
  };
  origin_ = std::make_unique<Origin>(open, "");
  try {
    board_ = origin_->Identify();
    if (cache_) cache_->BelongTo(board_);
  } catch (const Error& error) {
    const bool away =
        error.code() == ErrorCode::kUnavailable || error.code() == ErrorCode::kNotFound;
    if (!away || !cache_ || cache_->board().empty()) throw;
    board_ = cache_->board();
    origin_ = std::make_unique<Origin>(open, board_);
    events_.Write("origin_away", {{"error", error.what()}});
  }
}

Task<void> Relay::Run() {
  events_.Write("started", {{"board", board_},
                            {"cached_bytes", cache_ ? cache_->index().used_bytes() : 0},
                            {"port", port()}});
  while (!terminating_) co_await terminate_.Wait(net::kUntilRung);
  events_.Write("stopping", {});
  watches_->Stop();
  co_await server_->Drain(options_.drain);
  objects_->Stop();
  co_await errands_.AllEnded();
  events_.Write("stopped", {});
}

void Relay::Terminate() {
  terminating_ = true;
  terminate_.Ring();
}

void Relay::Reload() {
  try {
    access_.Reload();
    events_.Write("reloaded", {});
  } catch (const Error& error) {
    events_.Write("reload_failed", {{"error", error.what()}});
  }
}

bool Relay::MayAsk(const net::RequestHead& request) const {
  return IsHealth(request) || access_.Admits(request.headers, net::Caller::kClient);
}

Task<void> Relay::Handle(net::Exchange& exchange) {
  const net::RequestHead& request = exchange.request();
  if (!MayAsk(request)) co_return co_await exchange.Respond(net::Unauthorized());
  if (request.method != "GET" && request.method != "HEAD") {
    net::ResponseHead head{.status = 405};
    head.headers.Add("Allow", "GET, HEAD");
    co_return co_await exchange.Respond(std::move(head));
  }
  const Target target = ParseTarget(request.target);
  co_await exchange.ReadBody(kMaxRequestBodyBytes);
  int missing = 0;
  try {
    co_await Serve(exchange, target);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound || exchange.started()) throw;
    missing = 404;
  }
  if (missing == 0) co_return;
  net::ResponseHead head{.status = missing};
  head.headers.Add("Cache-Control", "no-cache");
  co_await exchange.Respond(std::move(head));
}

Task<void> Relay::Serve(net::Exchange& exchange, const Target& target) {
  if (const auto* object = std::get_if<ObjectTarget>(&target)) {
    co_await ServeObject(exchange, object->key);
  } else if (const auto* list = std::get_if<ListTarget>(&target)) {
    co_await ServeList(exchange, list->prefix);
  } else if (const auto* watch = std::get_if<WatchTarget>(&target)) {
    co_await ServeWatch(exchange, *watch);
  } else if (std::holds_alternative<MetricsTarget>(target)) {
    co_await RespondText(exchange, kMetricsType, MetricsText());
  } else {
    co_await RespondText(exchange, kJson, HealthText());
  }
}

Task<void> Relay::RespondText(net::Exchange& exchange, std::string_view type, std::string body) {
  net::ResponseHead head;
  head.headers.Add("Content-Type", type);
  head.headers.Add("Cache-Control", "no-cache");
  co_await exchange.Respond(std::move(head), body);
}

std::string Relay::HealthText() const {
  return ToText({{"ready", true}, {"origin", origin_->counters().reachable.load()}});
}

std::string Relay::MetricsText() {
  return metrics_.Expose({server_->counters(), origin_->counters(), *objects_, *watches_,
                          cache_ ? &cache_->index() : nullptr, client_bytes_});
}

Task<void> Relay::ServeObject(net::Exchange& exchange, std::string key) {
  switch (KindOf(key)) {
    case ObjectKind::kImmutable:
      co_return co_await ServeImmutable(exchange, std::move(key));
    case ObjectKind::kMutable:
      co_return co_await ServeMutable(exchange, std::move(key));
    case ObjectKind::kForeign:
      Throw(ErrorCode::kNotFound, "read {}: no object of a board", key);
  }
}

// Who may be content with a head does not make the relay fetch the object.
Task<void> Relay::ServeImmutable(net::Exchange& exchange, std::string key) {
  const net::RequestHead& request = exchange.request();
  if (request.method == "HEAD" || request.headers.Find("if-none-match")) {
    const uint64_t bytes = co_await objects_->Size(key);
    const std::string etag = TagOf(board_, key, bytes);
    const Selection part = Select(request, bytes, etag);
    if (request.method == "HEAD" || part.status == 304) {
      exchange.Start(HeadFor(part, key, ObjectKind::kImmutable, bytes, etag));
      co_return co_await exchange.Finish();
    }
  }
  ObjectReader reader = co_await objects_->Open(key);
  const uint64_t bytes = reader.object_bytes();
  const std::string etag = TagOf(board_, key, bytes);
  const Selection part = Select(request, bytes, etag);
  net::ResponseHead head = HeadFor(part, key, ObjectKind::kImmutable, bytes, etag);
  co_await Stream(exchange, reader, std::move(head), part);
}

// The head goes when the first piece is there: what fails before it has a status of its own.
Task<void> Relay::Stream(net::Exchange& exchange, ObjectReader& reader, net::ResponseHead head,
                         Selection part) {
  const uint64_t end = part.first + part.bytes;
  uint64_t at = part.first;
  std::string_view piece = co_await NextPiece(exchange, reader, at, end);
  exchange.Start(std::move(head));
  for (at += piece.size(); at < end; at += piece.size()) {
    co_await exchange.Write(piece);
    piece = co_await NextPiece(exchange, reader, at, end);
  }
  co_await exchange.Finish(piece);
}

Task<std::string_view> Relay::NextPiece(net::Exchange& exchange, ObjectReader& reader, uint64_t at,
                                        uint64_t end) {
  if (at == end) co_return std::string_view();
  const std::string_view piece = co_await reader.Read(at, end - at);
  co_await Pace(exchange, piece.size());
  client_bytes_ += piece.size();
  co_return piece;
}

Task<void> Relay::Pace(const net::Exchange& exchange, uint64_t bytes) {
  if (options_.client_bytes_per_s == 0) co_return;
  const net::Milliseconds wait = rate_.Take(AddressOf(exchange.peer()), bytes, MonotonicNow());
  if (wait > net::Milliseconds(0)) co_await net::Sleep(wait);
}

Task<void> Relay::ServeMutable(net::Exchange& exchange, std::string key) {
  const std::shared_ptr<const std::string> content = co_await objects_->Get(key);
  const std::string etag = TagOfContent(*content);
  const Selection part = Select(exchange.request(), content->size(), etag);
  co_await Pace(exchange, part.bytes);
  exchange.Start(HeadFor(part, key, ObjectKind::kMutable, content->size(), etag));
  client_bytes_ += part.bytes;
  const std::string_view body = std::string_view(*content).substr(static_cast<size_t>(part.first),
                                                                  static_cast<size_t>(part.bytes));
  co_await exchange.Finish(body);
}

Task<void> Relay::ServeList(net::Exchange& exchange, std::string prefix) {
  const std::shared_ptr<const std::string> text = co_await objects_->List(std::move(prefix));
  co_await Pace(exchange, text->size());
  net::ResponseHead head;
  head.headers.Add("Content-Type", kJson);
  head.headers.Add("Cache-Control", "no-cache");
  co_await exchange.Respond(std::move(head), *text);
}

Task<void> Relay::ServeWatch(net::Exchange& exchange, WatchTarget watch) {
  const board::VersionNumber version =
      co_await watches_->Wait(watch.run, watch.after, watch.timeout);
  if (version == board::kNoVersion) {
    net::ResponseHead head{.status = 204};
    head.headers.Add("Cache-Control", "no-cache");
    co_return co_await exchange.Respond(std::move(head));
  }
  std::string text = ToText({{"version", version}});
  co_await RespondText(exchange, kJson, std::move(text));
}

}  // namespace isthmus::relay
