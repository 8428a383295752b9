// What a relay knows of its origin's objects: in the cache, on the way, or freshly asked for.
#ifndef ISTHMUS_RELAY_OBJECTS_H_
#define ISTHMUS_RELAY_OBJECTS_H_

#include <map>
#include <memory>
#include <string>

#include "isthmus/relay/coalescer.h"
#include "isthmus/relay/fresh_values.h"
#include "isthmus/relay/object_reader.h"

namespace isthmus::relay {

struct ObjectCounters {
  uint64_t hits = 0;     // reads that began in the cache
  uint64_t misses = 0;   // that began a fetch
  uint64_t joined = 0;   // that found one under way
  uint64_t unsound = 0;  // files in the cache that were not what was written
  uint64_t failed = 0;   // fetches
};

// Used on its loop's thread only. Errors as Origin's.
class Objects {
 public:
  // How old an answer about something that may change can be.
  static constexpr net::Milliseconds kFreshFor{1000};
  static constexpr uint64_t kMaxMutableBytes = 1 << 20;
  // Some ten million keys would take minutes and gigabytes: who lists should say what.
  static constexpr uint64_t kMaxListBytes = uint64_t{16} << 20;

  // `cache` may be null: then everything passes through. What is given must outlive this.
  Objects(Errands& errands, Origin& origin, std::shared_ptr<DiskCache> cache,
          const Clock& clock = SystemClock());
  // Waits for the disk.
  ~Objects();
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;

  // The size of an immutable object; kNotFound if there is none.
  net::Task<uint64_t> Size(std::string key);
  // To read an immutable object; begins to fetch it if that must be. kNotFound.
  net::Task<ObjectReader> Open(std::string key);
  // A small object that may change; kNotFound.
  net::Task<std::shared_ptr<const std::string>> Get(std::string key);
  // {"keys":[…]}, without what is not served.
  net::Task<std::shared_ptr<const std::string>> List(std::string prefix);

  // There is news of a run: nothing about it that was asked for before is told any more.
  void ForgetRun(const std::string& run);
  // Fails what is being fetched.
  void Stop();

  const ObjectCounters& counters() const { return counters_; }
  const ReadPlaces& places() const { return places_; }
  size_t fetching() const { return flights_.size(); }

 private:
  net::Task<Answer> Ask(Question question, std::string key);
  net::Task<Answer> AskOrigin(Question question, std::string key);
  net::Task<Answer> AskAndKeep(Question question, std::string key);
  net::Task<std::optional<DiskCache::Found>> FindSound(std::string key);
  net::Task<bool> Prove(std::string key, std::shared_ptr<const File> file);
  std::shared_ptr<Flight> Begin(const std::string& key, uint64_t bytes);
  void Land(const std::string& key, Flight& flight, bool complete);

  Errands& errands_;
  const Clock& clock_;
  std::shared_ptr<DiskCache> cache_;
  FreshValues fresh_{kFreshFor};
  uint64_t news_ = 0;  // so often was something forgotten
  Coalescer<Answer> questions_;
  Coalescer<bool> proofs_;
  std::map<std::string, std::shared_ptr<Flight>> flights_;
  ObjectCounters counters_;
  net::asio::thread_pool disk_;
  ReadPlaces places_;
};

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_OBJECTS_H_
