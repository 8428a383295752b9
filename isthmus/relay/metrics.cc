#include "isthmus/relay/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>

#include "isthmus/observe/follow.h"

namespace isthmus::relay {
namespace {

using observe::Follow;

void Set(prometheus::Gauge& gauge, uint64_t value) { gauge.Set(static_cast<double>(value)); }

}  // namespace

struct Metrics::Families {
  prometheus::Gauge& Gauge(const std::string& name, const std::string& help) {
    return prometheus::BuildGauge()
        .Name("isthmus_relay_" + name)
        .Help(help)
        .Register(registry)
        .Add({});
  }
  prometheus::Counter& Counter(const std::string& name, const std::string& help) {
    return prometheus::BuildCounter()
        .Name("isthmus_relay_" + name)
        .Help(help)
        .Register(registry)
        .Add({});
  }

  prometheus::Registry registry;
  prometheus::Counter& requests = Counter("requests_total", "Requests, well formed as HTTP");
  prometheus::Counter& client_bytes =
      Counter("client_bytes_total", "Bytes of objects sent to clients");
  prometheus::Counter& origin_bytes =
      Counter("origin_bytes_total", "Bytes of objects read from the origin");
  prometheus::Counter& origin_calls = Counter("origin_calls_total", "Calls to the origin's store");
  prometheus::Counter& origin_failures =
      Counter("origin_failures_total", "Calls to the origin's store that failed");
  prometheus::Counter& hits = Counter("hits_total", "Objects read from the cache");
  prometheus::Counter& misses = Counter("misses_total", "Objects that had to be fetched");
  prometheus::Counter& joined =
      Counter("joined_total", "Objects read while they were being fetched for others");
  prometheus::Counter& passed =
      Counter("passed_total", "Objects passed through without a place in the cache");
  prometheus::Counter& failed = Counter("failed_fetches_total", "Fetches that failed");
  prometheus::Counter& unsound =
      Counter("unsound_files_total", "Cached files that did not fit their checksum");
  prometheus::Counter& evictions =
      Counter("evictions_total", "Objects removed from the cache to make room");
  prometheus::Counter& watch_questions =
      Counter("watch_questions_total", "Questions to the origin for watched runs");
  prometheus::Gauge& reachable =
      Gauge("origin_reachable", "1 if the last call to the origin's store was answered");
  prometheus::Gauge& connections = Gauge("client_connections", "Open connections of clients");
  prometheus::Gauge& fetching = Gauge("fetching", "Objects that are being fetched");
  prometheus::Gauge& passing = Gauge("passing", "Objects that are being passed through");
  prometheus::Gauge& cache_bytes =
      Gauge("cache_bytes", "Disk space taken by the cache, unfinished objects included");
  prometheus::Gauge& cache_objects = Gauge("cache_objects", "Objects in the cache");
  prometheus::Gauge& watchers = Gauge("watchers", "Requests that wait for a version");
  prometheus::Gauge& watched_runs = Gauge("watched_runs", "Runs that are watched");
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {}
Metrics::~Metrics() = default;

std::string Metrics::Expose(const Moment& moment) {
  Families& all = *families_;
  const ObjectCounters& objects = moment.objects.counters();
  Follow(all.requests, moment.server.requests);
  Follow(all.client_bytes, moment.client_bytes);
  Follow(all.origin_bytes, moment.origin.bytes);
  Follow(all.origin_calls, moment.origin.calls);
  Follow(all.origin_failures, moment.origin.failures);
  Follow(all.hits, objects.hits);
  Follow(all.misses, objects.misses);
  Follow(all.joined, objects.joined);
  Follow(all.passed, moment.objects.places().passed);
  Follow(all.failed, objects.failed);
  Follow(all.unsound, objects.unsound);
  Follow(all.watch_questions, moment.watches.questions());
  Set(all.reachable, moment.origin.reachable ? 1 : 0);
  Set(all.connections, moment.server.open);
  Set(all.fetching, moment.objects.fetching());
  Set(all.passing, moment.objects.places().passing);
  Set(all.watchers, moment.watches.watchers());
  Set(all.watched_runs, moment.watches.runs());
  if (moment.cache != nullptr) {
    Follow(all.evictions, moment.cache->evictions());
    Set(all.cache_bytes, moment.cache->used_bytes());
    Set(all.cache_objects, moment.cache->size());
  }
  return prometheus::TextSerializer().Serialize(all.registry.Collect());
}

}  // namespace isthmus::relay
