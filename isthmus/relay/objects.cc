#include "isthmus/relay/objects.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "isthmus/net/offload.h"
#include "isthmus/relay/object_kind.h"

namespace isthmus::relay {
namespace {

using net::Task;

constexpr size_t kDiskThreads = 4;

[[noreturn]] void ThrowMissing(const std::string& key) {
  Throw(ErrorCode::kNotFound, "read {}: no such object", key);
}

std::shared_ptr<const std::string> ListText(const std::vector<std::string>& keys) {
  uint64_t bytes = 0;
  boost::json::array served;
  for (const std::string& key : keys) {
    if (KindOf(key) == ObjectKind::kForeign) continue;
    bytes += key.size() + 3;  // quotes and a comma
    if (bytes > Objects::kMaxListBytes) {
      Throw(ErrorCode::kInvalid, "list: too many keys begin so, ask for a longer prefix");
    }
    served.emplace_back(key);
  }
  const boost::json::object object = {{"keys", std::move(served)}};
  return std::make_shared<const std::string>(boost::json::serialize(object) + "\n");
}

}  // namespace

Objects::Objects(Errands& errands, Origin& origin, std::shared_ptr<DiskCache> cache,
                 const Clock& clock)
    : errands_(errands),
      clock_(clock),
      cache_(std::move(cache)),
      questions_(errands),
      proofs_(errands),
      disk_(kDiskThreads),
      places_{origin, disk_} {}

Objects::~Objects() { disk_.join(); }

Task<Answer> Objects::AskOrigin(Question question, std::string key) {
  Answer answer;
  if (question == Question::kSize) {
    const std::optional<uint64_t> size = co_await places_.origin.Size(std::move(key));
    answer.missing = !size;
    answer.bytes = size.value_or(0);
  } else if (question == Question::kContent) {
    std::optional<std::string> content =
        co_await places_.origin.Get(std::move(key), kMaxMutableBytes);
    answer.missing = !content;
    if (content) answer.content = std::make_shared<const std::string>(std::move(*content));
  } else {
    const std::vector<std::string> keys = co_await places_.origin.List(std::move(key));
    answer.content = ListText(keys);
  }
  co_return answer;
}

Task<Answer> Objects::AskAndKeep(Question question, std::string key) {
  const MonotonicTime asked_at = clock_.Monotonic();
  const uint64_t news = news_;
  Answer answer = co_await AskOrigin(question, key);
  if (news == news_) fresh_.Put(question, key, answer, asked_at);
  co_return answer;
}

Task<Answer> Objects::Ask(Question question, std::string key) {
  if (const Answer* known = fresh_.Find(question, key, clock_.Monotonic())) co_return *known;
  std::string name = static_cast<char>(question) + key;
  auto ask = [this, question, key = std::move(key)] { return AskAndKeep(question, key); };
  co_return co_await questions_.Do(std::move(name), std::move(ask));
}

Task<uint64_t> Objects::Size(std::string key) {
  const auto found = co_await FindSound(key);
  if (found) co_return found->bytes;
  const Answer answer = co_await Ask(Question::kSize, key);
  if (answer.missing) ThrowMissing(key);
  co_return answer.bytes;
}

Task<std::shared_ptr<const std::string>> Objects::Get(std::string key) {
  const Answer answer = co_await Ask(Question::kContent, key);
  if (answer.missing) ThrowMissing(key);
  co_return answer.content;
}

Task<std::shared_ptr<const std::string>> Objects::List(std::string prefix) {
  if (!MayBeginKeys(prefix)) co_return ListText({});
  const Answer answer = co_await Ask(Question::kList, std::move(prefix));
  co_return answer.content;
}

// A file of an earlier process is read to its end before a byte of it is used.
Task<std::optional<DiskCache::Found>> Objects::FindSound(std::string key) {
  if (!cache_) co_return std::nullopt;
  std::optional<DiskCache::Found> found = cache_->Find(key);
  if (!found || found->proven) co_return found;
  auto ask = [this, key, file = found->file] { return Prove(key, file); };
  const bool sound = co_await proofs_.Do(key, std::move(ask));
  if (sound) co_return found;
  co_return std::nullopt;
}

// The cache knows the outcome before anybody hears it: who looks next does not ask again.
Task<bool> Objects::Prove(std::string key, std::shared_ptr<const File> file) {
  auto work = [file = std::move(file)] {
    try {
      return CacheFileIsSound(*file);
    } catch (const Error&) {
      return false;
    }
  };
  const bool sound = co_await net::Offload(disk_, std::move(work));
  if (sound) {
    cache_->SetProven(key);
  } else {
    ++counters_.unsound;
    cache_->DropUnproven(key);
  }
  co_return sound;
}

Task<ObjectReader> Objects::Open(std::string key) {
  std::optional<uint64_t> bytes;
  for (;;) {
    auto found = co_await FindSound(key);
    if (found) {
      ++counters_.hits;
      co_return ObjectReader(places_, key, std::move(*found));
    }
    const auto flight = flights_.find(key);
    if (flight != flights_.end() && !flight->second->failed()) {
      ++counters_.joined;
      co_return ObjectReader(places_, key, flight->second);
    }
    if (bytes) break;  // nothing was awaited since
    bytes = co_await Size(key);
  }
  ++counters_.misses;
  const std::shared_ptr<Flight> flight = Begin(key, *bytes);
  if (flight) co_return ObjectReader(places_, key, flight);
  co_return ObjectReader(places_, key, *bytes);
}

// Null: there is no room.
std::shared_ptr<Flight> Objects::Begin(const std::string& key, uint64_t bytes) {
  std::shared_ptr<Deposit> deposit = cache_ ? cache_->Reserve(key, bytes) : nullptr;
  if (!deposit) return nullptr;
  auto flight = std::make_shared<Flight>(places_.origin, disk_, key, bytes, std::move(deposit));
  flights_[key] = flight;
  flight->Begin(errands_,
                [this, key, raw = flight.get()](bool complete) { Land(key, *raw, complete); });
  return flight;
}

void Objects::Land(const std::string& key, Flight& flight, bool complete) {
  if (complete) cache_->Keep(flight.deposit());
  if (flight.failed()) {
    ++counters_.failed;
    fresh_.Forget(key);  // its size may be what was wrong
  }
  const auto at = flights_.find(key);
  if (at != flights_.end() && at->second.get() == &flight) flights_.erase(at);
}

void Objects::ForgetRun(const std::string& run) {
  ++news_;
  fresh_.ForgetUnder("runs/" + run + "/");
  questions_.Forget();
}

void Objects::Stop() {
  for (const auto& [key, flight] : flights_) flight->Stop();
}

}  // namespace isthmus::relay
