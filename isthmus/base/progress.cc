#include "isthmus/base/progress.h"

namespace isthmus {

Progress& NoProgress() {
  static SilentProgress progress;
  return progress;
}

}  // namespace isthmus
