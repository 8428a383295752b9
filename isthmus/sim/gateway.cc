#include "isthmus/sim/gateway.h"

#include <fmt/format.h>

#include <span>

namespace isthmus::sim {
namespace {

using gateway::Verdict;

uint64_t PlacementOf(uint32_t island, uint32_t incarnation) {
  return gateway::PlacementOf(fmt::format("island-{}.{}", island, incarnation));
}

}  // namespace

Gateway::Gateway(World& world, std::vector<uint32_t> region_of) : world_(world) {
  snapshot_.islands.resize(region_of.size());
  snapshot_.runs.push_back({"run", kNoVersion});
  incarnations_.resize(region_of.size());
  for (uint32_t i = 0; i < region_of.size(); ++i) {
    latency_.push_back(FromSeconds(world.scenario.regions[region_of[i]].latency_s));
    snapshot_.islands[i].placement = PlacementOf(i, 0);
    snapshot_.islands[i].run = 0;
    snapshot_.islands[i].limit = static_cast<uint32_t>(world.scenario.policy.island_in_flight);
  }
}

void Gateway::Submit(uint32_t id) {
  Rollout& rollout = world_.rollouts[id];
  ++world_.tally.requests;
  rollout.attempts = 0;
  rollout.wait_until = world_.timeline.now() + FromSeconds(world_.scenario.policy.wait_s);
  const auto line = lines_.find(rollout.min_version);
  if (line != lines_.end() && !line->second.waiting.empty()) {
    return Wait(id, line->second.for_room);  // behind those that do
  }
  Choose(id);
}

gateway::Choice Gateway::Ask(uint32_t id) {
  const Rollout& rollout = world_.rollouts[id];
  const lane::Constraint constraint = world_.ConstraintOf(rollout);
  char session[24];
  size_t length = 0;
  if (world_.scenario.rollouts.turns > 1) {
    length = static_cast<size_t>(fmt::format_to(session, "s{}", rollout.session) - session);
  }
  gateway::Ask ask;
  ask.constraint = &constraint;
  ask.session = {session, length};
  ask.tried = std::span(rollout.tried, rollout.attempts);
  ask.may_wait = world_.timeline.now() < rollout.wait_until;
  ++world_.tally.decisions;
  return ChooseIsland(ask, snapshot_, world_.draws.Bits());
}

void Gateway::Choose(uint32_t id) {
  const gateway::Choice choice = Ask(id);
  if (!Act(id, choice)) Wait(id, choice.verdict == Verdict::kQueue);
}

bool Gateway::Act(uint32_t id, const gateway::Choice& choice) {
  switch (choice.verdict) {
    case Verdict::kSend:
    case Verdict::kSendEarly:
      Send(id, choice);
      return true;
    case Verdict::kQueue:
    case Verdict::kWait:
      return false;
    case Verdict::kRefuse:
    case Verdict::kNoIsland:
      break;
  }
  ++world_.tally.refused;
  Refuse(id);
  return true;
}

void Gateway::Send(uint32_t id, const gateway::Choice& choice) {
  Rollout& rollout = world_.rollouts[id];
  rollout.island = choice.island;
  rollout.incarnation = incarnations_[choice.island];
  rollout.alternatives = choice.alternatives;
  ++snapshot_.islands[choice.island].in_flight;
  world_.timeline.AddAfter(latency_[choice.island], EventKind::kArrive, id);
}

void Gateway::Wait(uint32_t id, bool for_room) {
  Rollout& rollout = world_.rollouts[id];
  rollout.attempts = 0;  // islands report anew before it is sent again
  Line& line = lines_[rollout.min_version];
  if (line.waiting.empty()) {
    lines_for_room_ += (for_room ? 1 : 0) - (line.for_room ? 1 : 0);
    line.for_room = for_room;
  }
  line.waiting.push_back({id, ++rollout.waits});
  if (world_.timeline.now() < rollout.wait_until) {
    world_.timeline.Add(rollout.wait_until, EventKind::kWaitOver, id, rollout.waits);
  }
}

// The client asks again after a while.
void Gateway::Refuse(uint32_t id) {
  world_.timeline.AddAfter(FromSeconds(world_.scenario.policy.retry_s), EventKind::kSubmit, id);
}

bool Gateway::OnWaitOver(uint32_t id, uint32_t waits) {
  Rollout& rollout = world_.rollouts[id];
  if (rollout.waits != waits) return false;
  ++rollout.waits;  // whichever way, it leaves its place in the line
  DropGone(&lines_.at(rollout.min_version));
  Choose(id);
  return true;
}

void Gateway::OnReport(uint32_t island, const Report& report) {
  gateway::IslandView& view = snapshot_.islands[island];
  if (report.incarnation != incarnations_[island]) {
    incarnations_[island] = report.incarnation;
    view.placement = PlacementOf(island, report.incarnation);
  }
  view.state = report.state;
  view.served = report.served;
  view.target = report.target;
  VersionNumber& newest = snapshot_.runs[0].newest;
  newest = std::max(newest, report.head);
  world_.newest_known = newest;
  GoOn();
}

bool Gateway::OnAnswer(uint32_t id) {
  Rollout& rollout = world_.rollouts[id];
  --snapshot_.islands[rollout.island].in_flight;
  const bool served = rollout.answer == Answer::kServed;
  if (served) {
    ++world_.tally.served;
    world_.tally.lag_end.Add(world_.newest_known - std::min(rollout.end, world_.newest_known));
    if (!gateway::Satisfies(world_.ConstraintOf(rollout), rollout.start, rollout.start))
      ++unsatisfied_;
  } else {
    Retry(id);
  }
  if (lines_for_room_ > 0) GiveRoom();
  return served;
}

// No byte has gone to the client: another island is asked.
void Gateway::Retry(uint32_t id) {
  Rollout& rollout = world_.rollouts[id];
  world_.tally.aborted += rollout.answer == Answer::kAborted ? 1 : 0;
  world_.tally.lost += rollout.answer == Answer::kLost ? 1 : 0;
  rollout.start = kNoVersion;
  rollout.tried[rollout.attempts++] = rollout.island;
  if (rollout.attempts >= world_.scenario.policy.attempts) {
    ++world_.tally.failed;
    return Refuse(id);
  }
  ++world_.tally.retried;
  Choose(id);
}

// Those in front that have left the line.
void Gateway::DropGone(Line* line) const {
  while (!line->waiting.empty()) {
    const Waiting& front = line->waiting.front();
    if (world_.rollouts[front.rollout].waits == front.waits) return;
    line->waiting.pop_front();
  }
}

// Something has changed: whoever can, goes.
void Gateway::GoOn() {
  for (auto at = lines_.begin(); at != lines_.end();) {
    Line& line = at->second;
    bool for_room = false;
    for (DropGone(&line); !line.waiting.empty(); DropGone(&line)) {
      const uint32_t id = line.waiting.front().rollout;
      const gateway::Choice choice = Ask(id);
      for_room = choice.verdict == Verdict::kQueue;
      if (!Act(id, choice)) break;
      ++world_.rollouts[id].waits;
    }
    at = Keep(at, for_room);
  }
}

// One request has ended: one that waits for room may go.
void Gateway::GiveRoom() {
  for (auto at = lines_.begin(); at != lines_.end();) {
    Line& line = at->second;
    DropGone(&line);
    if (line.for_room && !line.waiting.empty()) {
      const uint32_t id = line.waiting.front().rollout;
      if (Act(id, Ask(id))) {
        ++world_.rollouts[id].waits;
        return DropGone(&line);
      }
    }
    at = Keep(at, line.for_room);
  }
}

// The line as it is now, if anybody is left. Returns the next one.
Gateway::Lines::iterator Gateway::Keep(Lines::iterator at, bool for_room) {
  Line& line = at->second;
  if (line.for_room) --lines_for_room_;
  if (line.waiting.empty()) return lines_.erase(at);
  line.for_room = for_room;
  if (for_room) ++lines_for_room_;
  return std::next(at);
}

}  // namespace isthmus::sim
