#include "isthmus/sim/fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cmath>

#include "isthmus/base/error.h"

namespace isthmus::sim {

namespace json = boost::json;

namespace {

constexpr size_t kMostShown = 100;  // bytes of what was found

// As a message shows it: foreign text, shortened, on one line.
std::string Shown(const json::value& value) {
  std::string text = json::serialize(value);
  if (text.size() > kMostShown) text = text.substr(0, kMostShown) + "…";
  return text;
}

}  // namespace

Fields::Fields(const json::value& value, std::string path)
    : object_(value.if_object()), path_(std::move(path)) {
  if (object_ != nullptr) return;
  Throw(ErrorCode::kInvalid, "{}: found {}, expected an object", path_.empty() ? "scenario" : path_,
        Shown(value));
}

double Fields::Number(std::string_view key, double min, double max,
                      std::optional<double> otherwise) {
  const json::value* value = Find(key);
  if (value == nullptr && otherwise) return *otherwise;
  const json::value& found = Require(key);
  boost::system::error_code error;
  const double number = found.is_number() ? found.to_number<double>(error) : NAN;
  if (!error && number >= min && number <= max) return number;
  Refuse(key, fmt::format("found {}, allowed are numbers from {} to {}", Shown(found), min, max));
}

// Also 1e12: people write large counts so.
uint64_t Fields::Count(std::string_view key, uint64_t min, uint64_t max,
                       std::optional<uint64_t> otherwise) {
  const json::value* value = Find(key);
  if (value == nullptr && otherwise) return *otherwise;
  const json::value& found = Require(key);
  boost::system::error_code error;
  const uint64_t count = found.is_number() ? found.to_number<uint64_t>(error) : 0;
  if (found.is_number() && !error && count >= min && count <= max) return count;
  Refuse(key,
         fmt::format("found {}, allowed are whole numbers from {} to {}", Shown(found), min, max));
}

bool Fields::Flag(std::string_view key, bool otherwise) {
  const json::value* value = Find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_bool()) {
    Refuse(key, fmt::format("found {}, allowed are true and false", Shown(*value)));
  }
  return value->get_bool();
}

std::string Fields::Text(std::string_view key, size_t max, std::optional<std::string> otherwise) {
  const json::value* value = Find(key);
  if (value == nullptr && otherwise) return *otherwise;
  const json::value& found = Require(key);
  if (!found.is_string() || found.get_string().size() > max) {
    Refuse(key, fmt::format("found {}, allowed are texts of up to {} bytes", Shown(found), max));
  }
  return std::string(found.get_string());
}

size_t Fields::Choice(std::string_view key, const std::vector<std::string_view>& choices,
                      std::optional<size_t> otherwise) {
  const json::value* value = Find(key);
  if (value == nullptr && otherwise) return *otherwise;
  const json::value& found = Require(key);
  const json::string* text = found.if_string();
  const auto at =
      text == nullptr ? choices.end() : std::ranges::find(choices, std::string_view(*text));
  if (at == choices.end()) {
    Refuse(key, fmt::format("found {}, allowed are {}", Shown(found), fmt::join(choices, ", ")));
  }
  return static_cast<size_t>(at - choices.begin());
}

Fields Fields::Object(std::string_view key) { return {Require(key), PathOf(key)}; }

std::vector<Fields> Fields::Objects(std::string_view key, size_t max) {
  const json::value& found = Require(key);
  const json::array* array = found.if_array();
  if (array == nullptr || array->size() > max) {
    Refuse(key, fmt::format("expected an array of up to {} objects", max));
  }
  std::vector<Fields> objects;
  objects.reserve(array->size());
  for (const json::value& value : *array) {
    objects.emplace_back(value, fmt::format("{}[{}]", PathOf(key), objects.size()));
  }
  return objects;
}

void Fields::End() const {
  for (const json::key_value_pair& field : *object_) {
    if (std::ranges::find(asked_, std::string_view(field.key())) != asked_.end()) continue;
    Refuse(field.key(), fmt::format("unknown, allowed here are {}", fmt::join(asked_, ", ")));
  }
}

void Fields::Refuse(std::string_view key, std::string_view why) const {
  Throw(ErrorCode::kInvalid, "{}: {}", PathOf(key), why);
}

const json::value* Fields::Find(std::string_view key) {
  if (std::ranges::find(asked_, key) == asked_.end()) asked_.push_back(key);
  return object_->if_contains(key);
}

const json::value& Fields::Require(std::string_view key) {
  const json::value* value = Find(key);
  if (value == nullptr) Refuse(key, "missing");
  return *value;
}

std::string Fields::PathOf(std::string_view key) const {
  const std::string shown(key.substr(0, kMostShown));
  return path_.empty() ? shown : fmt::format("{}.{}", path_, shown);
}

}  // namespace isthmus::sim
