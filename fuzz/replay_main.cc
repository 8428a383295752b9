// Runs a fuzz target over files, for builds without libFuzzer: replay-TARGET FILE_OR_FOLDER...
// Only what ends the program is a failure, and no file at all; a folder may be missing (a target
// that never failed has no regressions).
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "fuzz/fuzz.h"
#include "isthmus/base/file.h"

namespace isthmus::fuzz {
namespace {

std::vector<fs::path> FilesIn(const fs::path& path) {
  if (fs::is_regular_file(path)) return {path};
  std::vector<fs::path> files;
  if (!fs::exists(path)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

void Replay(const fs::path& file) {
  const std::string text = ReadFile(file, uint64_t{1} << 30);
  // An exact copy on the heap: a sanitizer sees the first byte that is read behind it.
  const std::vector<uint8_t> input(text.begin(), text.end());
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

int Main(std::span<char*> paths) {
  size_t count = 0;
  for (const char* path : paths) {
    for (const fs::path& file : FilesIn(path)) {
      fmt::print(stderr, "{}\n", file.string());
      Replay(file);
      ++count;
    }
  }
  fmt::print("{} files\n", count);
  return count > 0 ? 0 : 1;
}

}  // namespace
}  // namespace isthmus::fuzz

int main(int argc, char** argv) {
  return isthmus::fuzz::Main({argv + 1, static_cast<size_t>(argc - 1)});
}
