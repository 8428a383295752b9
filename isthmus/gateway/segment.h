// Files of the rollouts log: lines in the spool, the object that they become, and the list of ids
// that is left of them. Blocking; used by the recorder's threads. All errors are isthmus::Error.
#ifndef ISTHMUS_GATEWAY_SEGMENT_H_
#define ISTHMUS_GATEWAY_SEGMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/clock.h"
#include "isthmus/base/file.h"
#include "isthmus/store/store.h"

namespace isthmus::gateway {

inline constexpr std::string_view kSegmentSuffix = ".jsonl";
inline constexpr std::string_view kIdsSuffix = ".ids";

// 1 to 64 of [A-Za-z0-9._-], not beginning with '.'.
bool IsInstance(std::string_view instance);
// "DATE.INSTANCE-SEQUENCE": what the names of a segment's files begin with.
std::string SegmentStem(WallTime time, std::string_view instance, uint64_t sequence);
// Whether a file of the spool may be called so.
bool IsSegmentStem(std::string_view stem);
// "rollouts/DATE/INSTANCE-SEQUENCE.jsonl.zst".
std::string SegmentKey(std::string_view stem);

// Where a line is, without its end.
struct LinePlace {
  uint64_t id_hash = 0;  // HashOfId
  uint64_t offset = 0;   // among the segment's lines
  uint64_t bytes = 0;
};
uint64_t HashOfId(std::string_view id);

// One Zstandard frame of an object; it ends where the next one begins.
struct Frame {
  uint64_t begin = 0;  // of its first line among the lines
  uint64_t at = 0;     // in the object
};

struct SegmentObject {
  std::string key;
  std::vector<Frame> frames;
  uint64_t line_bytes = 0;
  uint64_t object_bytes = 0;
  std::vector<LinePlace> lines;
};

// Cuts off what stands behind the last line end, and finds the lines. Lines without an id have no
// place.
struct ScannedSegment {
  uint64_t bytes = 0;
  std::vector<LinePlace> lines;
};
ScannedSegment RecoverSegment(const fs::path& path);

// Syncs the file, compresses its whole lines, and creates the object, under another name if there
// is one of this name with another content. Holds the object in memory.
SegmentObject UploadSegment(store::Store& store, const fs::path& path, std::string_view stem,
                            int zstd_level);

// The line, from the spool's file or from the object: nullopt if file or object are gone, or if no
// line of this id is there.
std::optional<std::string> ReadSpooledLine(const fs::path& path, const LinePlace& place,
                                           std::string_view id);
std::optional<std::string> ReadStoredLine(store::Store& store, const SegmentObject& object,
                                          const LinePlace& place, std::string_view id);

// What is kept on the disk of an object that was uploaded. ReadIds: kCorrupt for another content.
void WriteIds(const fs::path& file, const SegmentObject& object);
SegmentObject ReadIds(const fs::path& file, uint64_t max_bytes);

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_SEGMENT_H_
