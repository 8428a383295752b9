// Puts versions into JSON answers of any size while they pass: nothing is parsed and printed, and
// at most kMaxHeldBytes wait. Pure.
//
// The bytes of an answer go in with Feed, in pieces cut anywhere, and its end with Finish. What
// leaves is views of the pieces themselves and of the stamp. An answer that was cut short must not
// be finished: nothing more follows then.
#ifndef ISTHMUS_LANE_ANSWER_STAMP_H_
#define ISTHMUS_LANE_ANSWER_STAMP_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/board/manifest.h"

namespace isthmus::lane {

enum class AnswerShape {
  kObject,    // OpenAI's, vLLM's: the stamp is among the members of the outermost object
  kMetaInfo,  // SGLang's /generate: in "meta_info" of the outermost object, or of each object of
              // the outermost list
};

// `"weight_version_start":41,"weight_version_end":42`, and behind a comma `spans`
// (VersionSpans::Member) if not empty.
std::string StampMembers(board::VersionNumber start, board::VersionNumber end,
                         std::string_view spans = {});

class AnswerStamp {
 public:
  // Beyond that, white space is not worth waiting for.
  static constexpr size_t kMaxHeldBytes = 65'536;

  using Pieces = std::vector<std::string_view>;

  AnswerStamp(const AnswerStamp&) = delete;
  AnswerStamp& operator=(const AnswerStamp&) = delete;
  virtual ~AnswerStamp() = default;

  // Appends to `out` what may leave. It lives until the next Feed, and as long as `piece`.
  virtual void Feed(std::string_view piece, Pieces* out) = 0;
  // The answer is complete: appends the rest. Once.
  virtual void Finish(Pieces* out) = 0;
  // How many bytes longer the answer becomes, for its Content-Length. nullopt: not known, or not
  // yet: ask again after the next Feed.
  virtual std::optional<size_t> inserted_bytes() const = 0;

 protected:
  AnswerStamp() = default;
};

// `members` is what is put in: at least one member, without braces and outer commas.
std::unique_ptr<AnswerStamp> MakeAnswerStamp(AnswerShape shape, std::string members);

// The shape kObject. The members go in front of the text's last '}', behind what is there: they win
// over the engine's own of the same name. A text that does not begin with '{' and end with '}', but
// for white space, is not stamped.
//
// inserted_bytes is known with the first byte that is no white space, and is then kept whatever
// comes: an empty object gets a space where others get a comma, and a text that begins as an object
// and does not end as one gets spaces behind its end, which make it no worse.
//
// Looks at the first and the last bytes of each piece only.
class ObjectStamp final : public AnswerStamp {
 public:
  explicit ObjectStamp(std::string members) : members_(std::move(members)) {}

  void Feed(std::string_view piece, Pieces* out) override;
  void Finish(Pieces* out) override;
  std::optional<size_t> inserted_bytes() const override;

 private:
  // What the text has shown of itself.
  enum class Beginning { kNothing, kOpen, kEmptyObject, kObject, kOther };

  void Look(std::string_view piece);
  void LookInside(std::string_view piece);
  void Release(Pieces* out);
  void Hold(std::string_view piece, size_t begin, Pieces* out);

  std::string members_;
  Beginning beginning_ = Beginning::kNothing;
  size_t leading_ = 0;    // white space at the beginning
  std::string held_;      // what may be the last '}', and white space behind it
  std::string released_;  // what was held, while views of it live
};

// The shape kMetaInfo. The members go in front of those that are there, once for each "meta_info"
// that is an object. An answer without one passes unchanged.
//
// inserted_bytes is never known, since an answer may be a list of any length: send it chunked.
// Finish has nothing to add.
class MetaInfoStamp final : public AnswerStamp {
 public:
  explicit MetaInfoStamp(std::string members) : members_(std::move(members)) {}

  void Feed(std::string_view piece, Pieces* out) override;
  void Finish(Pieces* /*out*/) override {}
  std::optional<size_t> inserted_bytes() const override { return std::nullopt; }

 private:
  enum class Phase { kBefore, kInside, kBehind };
  // What comes next among the members of a record, which is the outermost object or one of the
  // outermost list.
  enum class Expected { kKey, kMetaInfo, kOther };

  size_t Step(std::string_view piece, size_t at, Pieces* out);
  size_t Skip(std::string_view piece, size_t at) const;
  void Begin(char byte);
  void Take(char byte);
  void Open(char byte);
  void Close();
  size_t TakeString(std::string_view piece, size_t at);
  void KeepKey(std::string_view part);
  void EndString();
  void Insert(std::string_view piece, size_t at, Pieces* out);
  bool AmongMembers() const { return in_record_ && depth_ == record_depth_; }

  std::string members_;
  Phase phase_ = Phase::kBefore;
  size_t depth_ = 0;         // how many objects and lists are open
  size_t record_depth_ = 1;  // within a record; 2 for those of a list
  bool in_record_ = false;
  Expected expected_ = Expected::kOther;
  bool inserting_ = false;  // before the next byte that is no white space
  size_t passed_ = 0;       // of the current piece, has left
  bool in_string_ = false;
  bool escaped_ = false;  // the next byte of the string
  bool in_key_ = false;
  std::string key_;  // between the quotes
};

}  // namespace isthmus::lane

#endif  // ISTHMUS_LANE_ANSWER_STAMP_H_
