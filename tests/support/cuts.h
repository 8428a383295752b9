// Every way to cut a text in two, and a few to cut it in more.
#ifndef ISTHMUS_TESTS_SUPPORT_CUTS_H_
#define ISTHMUS_TESTS_SUPPORT_CUTS_H_

#include <algorithm>
#include <cstddef>
#include <random>
#include <string_view>
#include <vector>

namespace isthmus::testing {

using Cut = std::vector<std::string_view>;

// In pieces of `size` bytes; the last may be shorter.
inline Cut InPiecesOf(size_t size, std::string_view text) {
  Cut cut;
  for (size_t at = 0; at < text.size(); at += size) cut.push_back(text.substr(at, size));
  return cut;
}

// Pieces of up to `longest` bytes, some of them empty.
template <typename Random>
Cut InDrawnPieces(size_t longest, std::string_view text, Random* random) {
  Cut cut;
  std::uniform_int_distribution<size_t> draw(0, longest);
  while (!text.empty()) {
    cut.push_back(text.substr(0, draw(*random)));
    text.remove_prefix(cut.back().size());
  }
  return cut;
}

// Whole, at each place in two, and in pieces of 1 to 3 bytes.
inline std::vector<Cut> AllCuts(std::string_view text) {
  std::vector<Cut> cuts;
  for (size_t at = 0; at <= text.size(); ++at) {
    cuts.push_back({text.substr(0, at), text.substr(at)});
  }
  for (size_t size = 1; size <= 3; ++size) cuts.push_back(InPiecesOf(size, text));
  return cuts;
}

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_CUTS_H_
