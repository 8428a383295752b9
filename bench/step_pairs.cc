#include "bench/step_pairs.h"

#include <fmt/format.h>

#include "bench/modelgen.h"
#include "bench/served_model.h"

namespace isthmus::bench {
namespace {

using tensor::Checkpoint;

struct RealPair {
  std::string label;
  std::string view;
  int from;
  int to;
};

const std::vector<RealPair>& RealPairs() {
  static const std::vector<RealPair> pairs = {
      {std::string(kRealBf16One), "bf16", 37, 38},
      {std::string(kRealBf16Three), "bf16", 37, 40},
      {std::string(kRealFp8One), "fp8", 37, 38},
      {"real FP8 37 to 40", "fp8", 37, 40},
  };
  return pairs;
}

// Learning rates at which AdamW changes about so many elements a step, with modelgen's other
// defaults (measured).
struct DensePair {
  std::string label;
  double learning_rate;
};

const std::vector<DensePair>& ModelPairs() {
  static const std::vector<DensePair> pairs = {
      {"BF16 0.1 %", 0.87e-7}, {std::string(kBf16At015), 1.33e-7},
      {"BF16 0.35 %", 3.5e-7}, {std::string(kBf16At1), 1.17e-6},
      {"BF16 2 %", 2.6e-6},    {"BF16 4 %", 6e-6},
  };
  return pairs;
}

struct ServedPair {
  std::string label;
  ServedFormat format;
  double learning_rate;
};

const std::vector<ServedPair>& ServedPairs() {
  static const std::vector<ServedPair> pairs = {
      {"BF16 embedding 90 % idle", ServedFormat::kIdleEmbedding, 1.05e-6},
      {std::string(kFp8At01), ServedFormat::kFp8, 1.35e-6},
      {"INT4", ServedFormat::kInt4, 0.7e-6},
      {"FP4", ServedFormat::kFp4, 1.0e-6},
  };
  return pairs;
}

StepPair OpenPair(const std::string& label, bool generated, const fs::path& before,
                  const fs::path& after) {
  return {label, generated, Checkpoint::Open(before), Checkpoint::Open(after)};
}

class Walk {
 public:
  Walk(const PairPlaces& places, const std::string& filter, ThreadPool& pool,
       const std::function<void(const StepPair&)>& measure)
      : places_(places),
        filter_(filter),
        out_(places.scratch / "pair"),
        pool_(pool),
        measure_(measure) {}

  void Real() {
    for (const RealPair& pair : RealPairs()) {
      if (!Wanted(pair.label)) continue;
      const fs::path steps = places_.real / pair.view;
      measure_(OpenPair(pair.label, false, steps / fmt::format("step-{}", pair.from),
                        steps / fmt::format("step-{}", pair.to)));
    }
  }
  void Generated() {
    for (const DensePair& pair : ModelPairs()) {
      if (!Wanted(pair.label)) continue;
      ModelgenOptions options;
      options.out = out_;
      options.bytes = places_.bytes;
      options.steps = 2;
      options.learning_rate = pair.learning_rate;
      GenerateModel(options, pool_);
      MeasureGenerated(pair.label);
    }
  }
  void Served() {
    for (const ServedPair& pair : ServedPairs()) {
      if (!Wanted(pair.label)) continue;
      ServedModelOptions options;
      options.out = out_;
      options.format = pair.format;
      options.bytes = places_.bytes;
      options.learning_rate = pair.learning_rate;
      GenerateServedModel(options, pool_);
      MeasureGenerated(pair.label);
    }
  }

 private:
  bool Wanted(const std::string& label) const { return label.find(filter_) != std::string::npos; }
  void MeasureGenerated(const std::string& label) {
    measure_(OpenPair(label, true, out_ / "step-0", out_ / "step-1"));
    RemoveTree(out_);
  }

  const PairPlaces& places_;
  const std::string& filter_;
  const fs::path out_;
  ThreadPool& pool_;
  const std::function<void(const StepPair&)>& measure_;
};

}  // namespace

std::vector<TensorPair> StepPair::Tensors() const {
  std::vector<TensorPair> pairs;
  for (size_t i = 0; i < before.tensors().size(); ++i) {
    const Checkpoint::Tensor& tensor = after.tensors()[i];
    pairs.push_back(
        TensorPair::Of(tensor.info, before.Data(before.tensors()[i]), after.Data(tensor)));
  }
  return pairs;
}

ChangeCounts StepPair::CountChanges(ThreadPool& pool) const {
  const std::vector<TensorPair> tensors = Tensors();
  std::vector<ChangeCounts> counts(tensors.size());
  pool.ParallelFor(tensors.size(), [&](size_t i) {
    counts[i].Add(tensors[i].dtype, tensors[i].before, tensors[i].after);
  });
  ChangeCounts sum;
  for (const ChangeCounts& part : counts) sum.Add(part);
  return sum;
}

void ForEachPair(const PairPlaces& places, const std::string& filter, bool real, ThreadPool& pool,
                 const std::function<void(const StepPair&)>& measure) {
  Walk walk(places, filter, pool, measure);
  if (real && !places.real.empty()) walk.Real();
  walk.Generated();
  walk.Served();
}

}  // namespace isthmus::bench
