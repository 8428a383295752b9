// What commands print: text for people, or one JSON object.
#ifndef ISTHMUS_CLI_OUTPUT_H_
#define ISTHMUS_CLI_OUTPUT_H_

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/error.h"

namespace isthmus::cli {

namespace json = boost::json;

// The process's exit code for a failure: the one table (docs/cli.md).
int ExitCode(ErrorCode code);

// Prints one JSON object and a line break on standard output.
void PrintJson(const json::object& object);

// "12,345,678"; "10.57 MB" (powers of 1000); "0.70 %"; "2.4 s", "31 ms"; "x 95".
std::string FormatCount(uint64_t count);
std::string FormatBytes(uint64_t bytes);
std::string FormatPercent(double fraction);
std::string FormatSeconds(double seconds);

// A text as one line of UTF-8: control characters and bytes that are no UTF-8 become "?".
std::string OneLine(std::string_view text);

// Rows of "label  value" with the values aligned.
class Facts {
 public:
  void Add(std::string label, std::string value) {
    rows_.emplace_back(std::move(label), std::move(value));
  }
  void Print() const;

 private:
  std::vector<std::pair<std::string, std::string>> rows_;
};

// Columns aligned: the first to the left, the others to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void Print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// On standard error, one line each, with the program's name: things the user should know.
void PrintNotes(const std::vector<std::string>& notes);

}  // namespace isthmus::cli

#endif  // ISTHMUS_CLI_OUTPUT_H_
