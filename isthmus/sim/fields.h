// Reading JSON that people write: every field must be known, of its type and in its range.
#ifndef ISTHMUS_SIM_FIELDS_H_
#define ISTHMUS_SIM_FIELDS_H_

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::sim {

// The fields of one object, which must outlive this. All errors are kInvalid and name the field
// with its path, for example "regions[2].engine.slots".
class Fields {
 public:
  Fields(const boost::json::value& value, std::string path);

  bool Has(std::string_view key) { return Find(key) != nullptr; }
  // Without `otherwise` the field must be there.
  double Number(std::string_view key, double min, double max,
                std::optional<double> otherwise = std::nullopt);
  uint64_t Count(std::string_view key, uint64_t min, uint64_t max,
                 std::optional<uint64_t> otherwise = std::nullopt);
  bool Flag(std::string_view key, bool otherwise);
  // Not longer than `max` bytes.
  std::string Text(std::string_view key, size_t max,
                   std::optional<std::string> otherwise = std::nullopt);
  // The place of the text in `choices`.
  size_t Choice(std::string_view key, const std::vector<std::string_view>& choices,
                std::optional<size_t> otherwise = std::nullopt);
  Fields Object(std::string_view key);
  std::vector<Fields> Objects(std::string_view key, size_t max);

  // Refuses fields that were not asked for: those of a misspelled name would do nothing.
  void End() const;
  [[noreturn]] void Refuse(std::string_view key, std::string_view why) const;

 private:
  const boost::json::value* Find(std::string_view key);
  const boost::json::value& Require(std::string_view key);
  std::string PathOf(std::string_view key) const;

  const boost::json::object* object_;
  std::string path_;
  std::vector<std::string_view> asked_;
};

}  // namespace isthmus::sim

#endif  // ISTHMUS_SIM_FIELDS_H_
