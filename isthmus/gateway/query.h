// The parameters behind the "?" of a request target. Pure.
#ifndef ISTHMUS_GATEWAY_QUERY_H_
#define ISTHMUS_GATEWAY_QUERY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

namespace isthmus::gateway {

// Views of the text, which must outlive it. All errors are kInvalid and name the parameter. Escapes
// are not read: nothing that is asked here needs any.
class Query {
 public:
  // NAME=VALUE, '&' between; a name twice is refused.
  explicit Query(std::string_view text);

  // Takes a parameter out; nullopt: it is not there.
  std::optional<std::string_view> Take(std::string_view name);
  std::optional<uint64_t> TakeCount(std::string_view name, uint64_t max);
  // A decimal number from 0 to 1, such as 0.9.
  std::optional<double> TakeFraction(std::string_view name);
  // What was not taken is not known here: refused.
  void End() const;

 private:
  std::map<std::string_view, std::string_view> parameters_;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_QUERY_H_
