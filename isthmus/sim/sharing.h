// Work that is shared out evenly among all that is under way: requests on an engine, transfers on a
// link. Pure; not thread-safe.
//
// Each of n jobs gets the same rate, whoever is under way. So one number says how far each of them
// is (what any job has got since the beginning), and only the first end has to be known.
#ifndef ISTHMUS_SIM_SHARING_H_
#define ISTHMUS_SIM_SHARING_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "isthmus/sim/timeline.h"

namespace isthmus::sim {

class Sharing {
 public:
  // Amounts per second that each job gets from `now` on; 0: they stand still.
  void SetRate(double rate, SimTime now);
  double rate() const { return rate_; }
  // `key` is not under way. O(log n).
  void Add(uint32_t key, double amount, SimTime now);
  // What it has got up to now; it is removed. nullopt if it is not under way. O(n).
  std::optional<double> Remove(uint32_t key, SimTime now);

  // When the first one ends, at this rate; kNever if none does.
  SimTime FirstEnd() const;
  // One that has got all of its amount by now, which is removed; nullopt if there is none.
  std::optional<uint32_t> PopEnded(SimTime now);

  size_t size() const { return jobs_.size(); }
  std::vector<uint32_t> Keys() const;

 private:
  struct Job {
    double end = 0;    // what each will have got when this one has got its amount
    double begin = 0;  // what each had got when this one came
    uint32_t key = 0;
  };
  static bool EndsLater(const Job& a, const Job& b) {
    return a.end != b.end ? a.end > b.end : a.key > b.key;
  }
  void AdvanceTo(SimTime now);

  double rate_ = 0;
  double each_ = 0;        // what a job that was always there would have got
  SimTime at_ = 0;         // when that was so
  std::vector<Job> jobs_;  // a heap, the first to end in front
};

}  // namespace isthmus::sim

#endif  // ISTHMUS_SIM_SHARING_H_
