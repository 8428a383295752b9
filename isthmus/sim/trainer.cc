#include "isthmus/sim/trainer.h"

#include <algorithm>
#include <cmath>

namespace isthmus::sim {

void Trainer::Start() {
  if (InBatches()) BeginBatch();
  TrainIfReady();
  Fill();
}

// Log-normal with the mean that is given, cut off.
double Trainer::DrawTokens() {
  const RolloutFacts& facts = world_.scenario.rollouts;
  double tokens = facts.mean_tokens;
  if (facts.sigma > 0) {
    tokens *= std::exp(facts.sigma * world_.draws.Normal() - facts.sigma * facts.sigma / 2);
  }
  return std::clamp(std::round(tokens), 1.0, std::max(1.0, facts.max_tokens));
}

bool Trainer::MayBegin() const {
  if (active_ >= world_.scenario.trainer.in_flight) return false;
  if (InBatches()) return begun_ < batch();
  if (mode() == TrainerMode::kCadence) return true;
  // No more than will be trained on before they are max_lag versions old: as many batches as there
  // are versions by then.
  return begun_ < (world_.payloads.head() + world_.scenario.trainer.max_lag) * batch();
}

void Trainer::Fill() {
  while (MayBegin()) BeginRollout();
}

void Trainer::BeginRollout() {
  const uint32_t id = world_.rollouts.Take();
  Rollout& rollout = world_.rollouts[id];
  rollout.tokens = DrawTokens();
  rollout.turns_left = world_.scenario.rollouts.turns;
  rollout.session = ++sessions_;
  if (mode() == TrainerMode::kSynchronous) rollout.min_version = batches_;
  if (mode() == TrainerMode::kOneStepOff) rollout.min_version = std::max<uint64_t>(1, batches_ - 1);
  ++active_;
  ++begun_;
  gateway_.Submit(id);
}

void Trainer::OnServed(uint32_t id) {
  Rollout& rollout = world_.rollouts[id];
  world_.tally.tokens += rollout.tokens;
  if (--rollout.turns_left == 0) return EndRollout(id);
  rollout.tokens = DrawTokens();
  world_.timeline.AddAfter(FromSeconds(world_.scenario.rollouts.between_turns_s),
                           EventKind::kSubmit, id);
}

void Trainer::EndRollout(uint32_t id) {
  const uint64_t age = world_.payloads.head() - world_.rollouts[id].oldest;
  world_.rollouts.Free(id);
  ++world_.tally.rollouts;
  world_.tally.age.Add(age);
  --active_;
  if (mode() == TrainerMode::kAsynchronous && age > world_.scenario.trainer.max_lag) {
    ++world_.tally.stale_rollouts;
    --begun_;  // another one takes its place
  } else {
    ++buffered_;
  }
  if (InBatches() && ++ended_ == batch()) BeginBatch();
  TrainIfReady();
  Fill();
}

// The next batch: once the last one has ended, and the version that it asks for is published.
void Trainer::BeginBatch() {
  const uint64_t behind = mode() == TrainerMode::kOneStepOff ? 1 : 0;
  const bool last_ended = batches_ == 0 || ended_ == batch();
  if (!last_ended || world_.payloads.head() + behind < batches_ + 1) return;
  ++batches_;
  begun_ = ended_ = 0;
}

void Trainer::TrainIfReady() {
  if (world_.scenario.trainer.step_s == 0) return;
  if (training_) return;
  const bool ready = mode() == TrainerMode::kCadence || buffered_ >= batch();
  Idle(!ready);
  if (!ready) return;
  if (mode() != TrainerMode::kCadence) buffered_ -= batch();
  training_ = true;
  world_.timeline.AddAfter(FromSeconds(world_.scenario.trainer.step_s), EventKind::kTrained);
}

// The next step runs while this one's version is published; its own waits for that.
void Trainer::OnTrained() {
  if (publishing_) {
    blocked_ = true;
    return Idle(true);
  }
  Publish();
  training_ = false;
  TrainIfReady();
}

void Trainer::Publish() {
  publishing_ = true;
  const ModelFacts& model = world_.scenario.model;
  const auto bytes = static_cast<double>(world_.payloads.NextBytes());
  world_.tally.published_bytes += bytes;
  world_.timeline.AddAfter(FromSeconds(model.checkpoint_bytes / model.diff_bytes_per_s +
                                       bytes / world_.scenario.upload_bytes_per_s),
                           EventKind::kPublished);
}

void Trainer::OnPublished() {
  publishing_ = false;
  world_.payloads.Publish();
  ++world_.tally.versions;
  if (InBatches()) BeginBatch();
  if (blocked_) {
    blocked_ = training_ = false;
    Publish();
  }
  TrainIfReady();
  Fill();
}

void Trainer::Idle(bool idle) {
  const SimTime now = world_.timeline.now();
  if (idle_since_ != kNever) world_.tally.train_wait_s += ToSeconds(now - idle_since_);
  idle_since_ = idle ? now : kNever;
}

void Trainer::Settle() { Idle(false); }

}  // namespace isthmus::sim
