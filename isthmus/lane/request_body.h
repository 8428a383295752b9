// What the proxy reads in the JSON body of a rollout request, and how it edits the text. Only
// members of the outermost object count. Pure.
//
// Edits keep every other byte as it was: nothing is parsed and printed again.
#ifndef ISTHMUS_LANE_REQUEST_BODY_H_
#define ISTHMUS_LANE_REQUEST_BODY_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "isthmus/lane/request.h"

namespace isthmus::lane {

class RequestBody {
 public:
  // Reads `text`, which must outlive the object and stay where it is. `salt_field` is the member
  // that the engine takes its cache salt from, "cache_salt" or "extra_key", of letters and '_'; it
  // must outlive the object too. Empty: the engine has none, and none is read or written.
  //
  //   weight_version  {"min_version": N, "exact_version": N}, both optional and optionally null;
  //                   no other members. null: as if it were absent
  //   stream          true, false or null
  //   `salt_field`    a string or null
  //
  // kInvalid: a text that is not one JSON object in UTF-8, or whose members are nested deeper than
  // kMaxJsonDepth; one of the three with another value, or given twice. The error begins with the
  // member's name, or with "body". A constraint whose fields contradict each other is not refused
  // here (Check).
  RequestBody(std::string_view text, std::string_view salt_field);

  // Of min_version and exact_version alone.
  const Constraint& constraint() const { return constraint_; }
  bool stream() const { return stream_; }
  // What the client gave as its salt, decoded. An empty one is not the same as none.
  const std::optional<std::string>& user_salt() const { return user_salt_; }

  // The text for the engine: without weight_version, and with `salt` (MakeCacheSalt; it is not
  // escaped) as the salt field's value, in its place or, if there was none, as the first member.
  std::string Edited(std::string_view salt) const;

 private:
  // Bytes of the text, by their offsets.
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };
  // What takes their place.
  struct Edit {
    Range range;
    std::string text;
  };

  void Visit(std::string_view key, std::string_view value);
  void ReadConstraint(std::string_view value);
  void ReadStream(std::string_view value);
  void ReadSalt(std::string_view value);
  Edit SaltEdit(std::string_view salt) const;
  Range RangeOf(std::string_view part) const;

  std::string_view text_;
  std::string_view salt_field_;
  Constraint constraint_;
  bool stream_ = false;
  std::optional<std::string> user_salt_;

  size_t members_ = 0;
  size_t last_end_ = 0;  // of the member before
  bool stream_seen_ = false;
  std::optional<Range> salt_;            // its value, with the quotes
  std::optional<Range> weight_version_;  // with the one comma that goes with it
  bool goes_to_next_key_ = false;        // weight_version is the first member, and so far the last
};

}  // namespace isthmus::lane

#endif  // ISTHMUS_LANE_REQUEST_BODY_H_
