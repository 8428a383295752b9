#include "isthmus/sim/simulation.h"

namespace isthmus::sim {
namespace {

std::vector<uint32_t> RegionOfEach(const Scenario& scenario) {
  std::vector<uint32_t> regions;
  for (uint32_t r = 0; r < scenario.regions.size(); ++r) {
    regions.insert(regions.end(), scenario.regions[r].islands, r);
  }
  return regions;
}

}  // namespace

Simulation::Simulation(const Scenario& scenario)
    : world_(scenario), gateway_(world_, RegionOfEach(scenario)), trainer_(world_, gateway_) {
  for (const RegionFacts& region : scenario.regions) {
    world_.tally.regions.push_back({.name = region.name, .islands = region.islands});
    world_.tally.token_capacity +=
        static_cast<double>(region.islands) * region.engine.tokens_per_s * scenario.hours * 3'600;
  }
  world_.tally.islands = scenario.islands();
  for (const uint32_t region : RegionOfEach(scenario)) {
    islands_.emplace_back(world_, static_cast<uint32_t>(islands_.size()), region);
  }
  // The gateway knows them from the beginning.
  for (uint32_t i = 0; i < islands_.size(); ++i) gateway_.OnReport(i, islands_[i].told());
}

const Tally& Simulation::Run(const std::function<void(const Event&)>& watch) {
  const SimTime end = FromSeconds(world_.scenario.hours * 3'600);
  if (end > 0) trainer_.Start();
  while (world_.timeline.next() < end) {
    const Event event = world_.timeline.Pop();
    if (Dispatch(event)) ++world_.tally.events;
    if (watch) watch(event);
  }
  world_.timeline.AdvanceTo(end);
  Settle();
  return world_.tally;
}

// False: an old event, of which nothing came.
bool Simulation::Dispatch(const Event& event) {
  switch (event.kind) {
    case EventKind::kAnswer:
      if (gateway_.OnAnswer(event.a)) trainer_.OnServed(event.a);
      return true;
    case EventKind::kSubmit:
      gateway_.Submit(event.a);
      return true;
    case EventKind::kWaitOver:
      return gateway_.OnWaitOver(event.a, event.b);
    case EventKind::kLink:
      return world_.network.OnLink(event.a);
    case EventKind::kTrained:
      trainer_.OnTrained();
      return true;
    case EventKind::kPublished:
      trainer_.OnPublished();
      for (Island& island : islands_) island.Announce();
      return true;
    case EventKind::kArrive:
      islands_[world_.rollouts[event.a].island].OnArrive(event.a);
      return true;
    default:
      return DispatchToIsland(event);
  }
}

bool Simulation::DispatchToIsland(const Event& event) {
  Island& island = islands_[event.a];
  switch (event.kind) {
    case EventKind::kReport:
      gateway_.OnReport(event.a, island.TakeReport());
      return true;
    case EventKind::kEngine:
      return island.OnEngine();
    case EventKind::kGateTimer:
      return island.OnGateTimer();
    case EventKind::kLearn:
      return island.OnLearn(event.b);
    case EventKind::kFetched:
      return island.OnFetched(event.b);
    case EventKind::kApplied:
      return island.OnApplied(event.b);
    case EventKind::kPaused:
      return island.OnPaused(event.b);
    case EventKind::kLoaded:
      return island.OnLoaded(event.b);
    case EventKind::kProven:
      return island.OnProven(event.b);
    case EventKind::kNotice:
      return island.OnNotice(event.b);
    case EventKind::kKill:
      return island.OnKill(event.b);
    case EventKind::kBoot:
      island.OnBoot();
      return true;
    default:
      return false;
  }
}

void Simulation::Settle() {
  Tally& tally = world_.tally;
  tally.simulated = world_.timeline.now();
  trainer_.Settle();
  world_.network.Settle();
  for (Island& island : islands_) island.Settle();
  for (uint32_t r = 0; r < tally.regions.size(); ++r) {
    tally.regions[r].link_bytes = world_.network.LinkBytes(r);
    tally.regions[r].relay_bytes = world_.network.RelayBytes(r);
  }
}

}  // namespace isthmus::sim
