// What an engine answered to a control call, and how its JSON is read: never trusted, always with
// the call's name in the error.
#ifndef ISTHMUS_ENGINE_ANSWER_H_
#define ISTHMUS_ENGINE_ANSWER_H_

#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "isthmus/base/error.h"

namespace isthmus::engine {

// Foreign text for a message: quoted, escaped, cut to some 300 bytes.
std::string Excerpt(std::string_view text);

// A JSON value and where it came from. Places in it are JSON pointers (RFC 6901):
// "/choices/0/text". What is null counts as absent. All that does not fit is kCorrupt.
class Document {
 public:
  // `call` names engine and route. kCorrupt unless `text` is one JSON value, nested at most 64
  // deep.
  Document(std::string call, std::string_view text);

  // Null if nothing is there. Lives as long as this.
  const boost::json::value* Find(std::string_view pointer) const;
  // What is there, of that kind.
  bool Flag(std::string_view pointer) const;
  std::string Text(std::string_view pointer) const;
  uint64_t Count(std::string_view pointer) const;
  double FiniteNumber(std::string_view pointer) const;
  const boost::json::array& Array(std::string_view pointer) const;
  const boost::json::object& Object(std::string_view pointer) const;

  // Throws: the call, what is wrong at that place, and what is there.
  [[noreturn]] void Refuse(ErrorCode code, std::string_view pointer, std::string_view why) const;

 private:
  std::string call_;
  boost::json::value value_;
};

class Answer {
 public:
  Answer() = default;  // what net::Within begins with
  Answer(std::string call, int status, std::string body)
      : call_(std::move(call)), status_(status), body_(std::move(body)) {}

  int status() const { return status_; }
  const std::string& body() const { return body_; }

  // Throws unless the status is 2xx: kInvalid where the engine refuses the token (401, 403), else
  // kUnavailable, with what the body says.
  void RequireSuccess() const;
  // The body of an answer of which RequireSuccess holds.
  Document Json() const;

 private:
  std::string call_;
  int status_ = 0;
  std::string body_;
};

}  // namespace isthmus::engine

#endif  // ISTHMUS_ENGINE_ANSWER_H_
