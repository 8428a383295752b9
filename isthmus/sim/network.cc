#include "isthmus/sim/network.h"

#include <algorithm>
#include <numeric>

namespace isthmus::sim {
namespace {

template <typename T>
uint32_t Place(std::vector<T>* all, std::vector<uint32_t>* free, const T& value) {
  if (free->empty()) {
    all->push_back(value);
    return static_cast<uint32_t>(all->size() - 1);
  }
  const uint32_t place = free->back();
  free->pop_back();
  (*all)[place] = value;
  return place;
}

}  // namespace

Network::Network(const Scenario& scenario, const Payloads& payloads, Timeline& timeline)
    : scenario_(scenario), payloads_(payloads), timeline_(timeline) {
  const auto& regions = scenario.regions;
  relays_.resize(regions.size());
  links_.resize(2 * regions.size());
  for (size_t r = 0; r < regions.size(); ++r) {
    links_[r].capacity = regions[r].link_bytes_per_s;
    links_[r].each_at_most =
        regions[r].relay ? regions[r].link_bytes_per_s : regions[r].island_bytes_per_s;
    links_[regions.size() + r].capacity = regions[r].relay_bytes_per_s;
    links_[regions.size() + r].each_at_most = regions[r].island_bytes_per_s;
  }
}

FetchId Network::Start(uint32_t region, const replica::Plan& plan, uint32_t island,
                       uint32_t incarnation) {
  const FetchId id =
      Place(&fetches_, &free_fetches_, {island, incarnation, region, 1, UINT32_MAX, false});
  const bool relayed = scenario_.regions[region].relay;
  if (relayed) {
    for (const auto& payload : plan.payloads) AskRelay(relays_[region], payload, region, id);
  }
  if (plan.fetch_bytes == 0) {
    Done(id);
  } else {
    const uint32_t link = relayed ? regions() + region : region;
    fetches_[id].own = Begin({static_cast<double>(plan.fetch_bytes), id, {}, link});
  }
  return id;
}

void Network::AskRelay(Relay& relay, const replica::PlannedPayload& payload, uint32_t region,
                       FetchId id) {
  const uint64_t bytes = payloads_.BytesOf(payload);
  if (bytes == 0 || relay.held.contains(payload)) return;
  ++fetches_[id].pending;
  auto [at, added] = relay.coming.try_emplace(payload);
  at->second.push_back(id);
  if (added) Begin({static_cast<double>(bytes), kNoFetch, payload, region});
}

uint32_t Network::Begin(const Transfer& transfer) {
  const uint32_t id = Place(&transfers_, &free_transfers_, transfer);
  links_[transfer.link].transfers.Add(id, transfer.bytes, timeline_.now());
  Share(transfer.link);
  return id;
}

void Network::Cancel(FetchId id, uint32_t island, uint32_t incarnation) {
  if (id == kNoFetch) return;
  Fetch& fetch = fetches_[id];
  if (fetch.pending == 0 || fetch.island != island || fetch.incarnation != incarnation) return;
  fetch.cancelled = true;
  if (fetch.own == UINT32_MAX) return;
  const uint32_t transfer = std::exchange(fetch.own, UINT32_MAX);
  const uint32_t link = transfers_[transfer].link;
  links_[link].bytes += links_[link].transfers.Remove(transfer, timeline_.now()).value_or(0);
  free_transfers_.push_back(transfer);
  Done(id);
  Share(link);
}

bool Network::OnLink(uint32_t link) {
  if (links_[link].armed != timeline_.now()) return false;
  links_[link].armed = kNever;
  bool ended = false;
  while (const auto transfer = links_[link].transfers.PopEnded(timeline_.now())) {
    End(*transfer);
    ended = true;
  }
  if (ended) {
    Share(link);
  } else {
    Arm(link);
  }
  return ended;
}

void Network::End(uint32_t id) {
  const Transfer transfer = transfers_[id];
  free_transfers_.push_back(id);
  links_[transfer.link].bytes += transfer.bytes;
  if (transfer.fetch != kNoFetch) {
    fetches_[transfer.fetch].own = UINT32_MAX;
    return Done(transfer.fetch);
  }
  Relay& relay = relays_[transfer.link];
  relay.held.insert(transfer.payload);
  const auto came = relay.coming.extract(transfer.payload);
  for (const FetchId waiting : came.mapped()) Done(waiting);
}

// One of its transfers has ended.
void Network::Done(FetchId id) {
  Fetch& fetch = fetches_[id];
  if (--fetch.pending > 0) return;
  if (!fetch.cancelled) {
    const double trip = 2 * scenario_.regions[fetch.region].latency_s;
    timeline_.AddAfter(FromSeconds(trip), EventKind::kFetched, fetch.island, fetch.incarnation);
  }
  free_fetches_.push_back(id);
}

// The number of transfers of a link has changed.
void Network::Share(uint32_t link) {
  if (FromOrigin(link) && scenario_.egress_bytes_per_s < kNoLimit) return ShareEgress();
  const Link& shared = links_[link];
  const auto count = static_cast<double>(std::max<size_t>(shared.transfers.size(), 1));
  SetRate(link, std::min(shared.capacity / count, shared.each_at_most));
}

// Max-min: links that need least for each transfer are given it first; the others share the rest.
void Network::ShareEgress() {
  const auto need = [this](uint32_t link) {
    const Link& shared = links_[link];
    const auto count = static_cast<double>(std::max<size_t>(shared.transfers.size(), 1));
    return std::min(shared.capacity / count, shared.each_at_most);
  };
  by_need_.resize(regions());
  std::iota(by_need_.begin(), by_need_.end(), 0);
  std::ranges::sort(by_need_, [&](uint32_t a, uint32_t b) {
    return std::pair(need(a), a) < std::pair(need(b), b);
  });
  double left = scenario_.egress_bytes_per_s;
  size_t transfers = 0;
  for (uint32_t r = 0; r < regions(); ++r) transfers += links_[r].transfers.size();
  for (const uint32_t link : by_need_) {
    const size_t count = links_[link].transfers.size();
    if (count == 0) continue;
    const double rate = std::min(need(link), left / static_cast<double>(transfers));
    left -= rate * static_cast<double>(count);
    transfers -= count;
    SetRate(link, rate);
  }
}

void Network::SetRate(uint32_t link, double rate) {
  if (rate != links_[link].transfers.rate()) links_[link].transfers.SetRate(rate, timeline_.now());
  Arm(link);
}

void Network::Arm(uint32_t link) {
  const SimTime end = links_[link].transfers.FirstEnd();
  if (end >= links_[link].armed) return;
  links_[link].armed = end;
  timeline_.Add(end, EventKind::kLink, link);
}

void Network::Settle() {
  for (uint32_t id = 0; id < transfers_.size(); ++id) {
    Link& link = links_[transfers_[id].link];
    link.bytes += link.transfers.Remove(id, timeline_.now()).value_or(0);
  }
}

}  // namespace isthmus::sim
