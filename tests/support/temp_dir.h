// A directory for one test.
#ifndef ISTHMUS_TESTS_SUPPORT_TEMP_DIR_H_
#define ISTHMUS_TESTS_SUPPORT_TEMP_DIR_H_

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "isthmus/base/bytes.h"
#include "isthmus/base/error.h"
#include "isthmus/base/file.h"

namespace isthmus::testing {

// Made empty below the system's temporary directory, removed with its content at the end.
class TempDir {
 public:
  TempDir() {
    std::string name = fs::temp_directory_path() / "isthmus-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) ThrowErrno(errno, "create directory", name);
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const fs::path& path() const { return path_; }
  fs::path operator/(std::string_view name) const { return path_ / name; }

  // Writes a file, and the directories that lead to it; returns its path.
  fs::path Write(std::string_view name, std::string_view content) const {
    fs::path path = path_ / name;
    fs::create_directories(path.parent_path());
    File::Create(path).Write(AsBytes(content));
    return path;
  }
  fs::path Write(std::string_view name, ByteSpan content) const {
    return Write(name, AsText(content));
  }

 private:
  fs::path path_;
};

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_TEMP_DIR_H_
