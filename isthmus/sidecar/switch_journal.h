// What a sidecar that starts must know about its predecessor's engines.
#ifndef ISTHMUS_SIDECAR_SWITCH_JOURNAL_H_
#define ISTHMUS_SIDECAR_SWITCH_JOURNAL_H_

#include <optional>
#include <string>
#include <vector>

#include "isthmus/base/file.h"
#include "isthmus/board/manifest.h"

namespace isthmus::sidecar {

// A record of the island's last known state.
struct SwitchRecord {
  std::string run;
  std::vector<std::string> engines;  // their names, in order
  // The engines hold this version, verified, and generate; kNoVersion from before the first call
  // that can pause them until that is true again.
  board::VersionNumber serving = board::kNoVersion;
  std::string layout;                                  // LayoutOf it (stager.h)
  board::VersionNumber switching = board::kNoVersion;  // the version being loaded, if any
  std::string boot_id;                                 // the machine's boot it was written in

  bool operator==(const SwitchRecord&) const = default;
};

// One small file, replaced at once. It must outlive the process, not the machine: engines do not
// outlive that either, and a record of another boot is not believed. So nothing waits for the disk.
class SwitchJournal {
 public:
  explicit SwitchJournal(fs::path file) : file_(std::move(file)) {}

  // nullopt if there is none, or none that can be believed: damaged, or of another boot.
  std::optional<SwitchRecord> Read() const;
  // Fills in the boot.
  void Write(SwitchRecord record) const;

 private:
  fs::path file_;
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_SWITCH_JOURNAL_H_
