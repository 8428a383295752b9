// Case and blanks of ASCII text, as HTTP and configuration files mean them, whatever the locale.
#ifndef ISTHMUS_STORE_ASCII_H_
#define ISTHMUS_STORE_ASCII_H_

#include <algorithm>
#include <string>
#include <string_view>

namespace isthmus::store {

inline constexpr std::string_view kBlanks = " \t\r\n";

inline std::string ToLower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  }
  return lower;
}

// Without the blanks at both ends.
inline std::string_view Trim(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_ASCII_H_
