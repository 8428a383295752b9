#include "isthmus/base/progress.h"

namespace isthmus {
namespace {

class SilentProgress final : public Progress {
 public:
  void Begin(std::string_view /*label*/, uint64_t /*total_bytes*/) override {}
  void Advance(uint64_t /*bytes*/) override {}
  void End() override {}
};

}  // namespace

Progress& NoProgress() {
  static SilentProgress progress;
  return progress;
}

}  // namespace isthmus
