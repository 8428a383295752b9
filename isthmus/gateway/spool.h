// The recorder's directory: one file that lines are appended to, and those that wait for their
// upload. Blocking, but for the disk's cache; used on one thread. All errors are isthmus::Error.
#ifndef ISTHMUS_GATEWAY_SPOOL_H_
#define ISTHMUS_GATEWAY_SPOOL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/file.h"
#include "isthmus/gateway/rollout_index.h"

namespace isthmus::gateway {

class Spool {
 public:
  // Creates the directory, locks it (kConflict if another process has it), and removes what
  // interrupted writes left there.
  Spool(fs::path directory, std::string instance);

  // What an earlier process left behind: uploaded segments, of which the list of ids is there, and
  // others, recovered. Oldest first. Files that cannot be read are left alone and named in
  // `unreadable`; lists of ids that cannot be are removed.
  struct Leftover {
    std::shared_ptr<Segment> segment;
    std::vector<LinePlace> lines;
  };
  std::vector<Leftover> Recover(std::vector<std::string>* unreadable);

  // The segment that is appended to; null: none.
  const std::shared_ptr<Segment>& current() const { return current_; }
  // Begins one. `sync`: its name is on stable storage on return.
  void Open(bool sync);
  // Appends a line, which has its end, to it; where it begins. After an error the file holds what
  // it held before, or, if that could not be had either, is closed with whole lines and a torn one,
  // which its upload leaves out. `sync`: it is on stable storage on return.
  uint64_t Append(std::string_view line, bool sync);
  // Nothing more is appended to it.
  std::shared_ptr<Segment> Close();

 private:
  std::shared_ptr<Segment> MakeSegment(const std::string& stem) const;
  std::optional<Leftover> RecoverOne(const fs::path& file, std::vector<std::string>* unreadable);

  fs::path directory_;
  std::string instance_;
  std::optional<FileLock> lock_;
  uint64_t sequence_ = 0;
  std::shared_ptr<Segment> current_;
  std::optional<File> file_;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_SPOOL_H_
