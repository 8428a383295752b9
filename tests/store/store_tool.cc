// One operation of a store from the command line, so that Python tests can put what they like
// between the store and its server:
//
//   store_tool LOCATION OPERATION [KEY [FILE]]
//
// Prints "ok" and what the operation gave, or "CODE: MESSAGE"; exits with 0 in both cases. Options
// are read from STORE_DEADLINE_MS, STORE_STALL_MS, STORE_CA, STORE_TOKEN_FILE, STORE_ENDPOINT,
// STORE_VIRTUAL_HOST; STORE_MAX_BYTES bounds a fetch. With STORE_LINES operations, keys and files
// come in lines on standard input.
#include <fmt/format.h>

#include <cstdlib>
#include <iostream>
#include <limits>
#include <sstream>

#include "isthmus/base/error.h"
#include "isthmus/store/store.h"

namespace isthmus::store {
namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

StoreOptions Options() {
  StoreOptions options;
  options.deadline = std::chrono::milliseconds(std::stoi("0" + Variable("STORE_DEADLINE_MS")));
  if (options.deadline.count() == 0) options.deadline = std::chrono::seconds(60);
  options.stall = std::chrono::milliseconds(std::stoi("0" + Variable("STORE_STALL_MS")));
  if (options.stall.count() == 0) options.stall = std::chrono::seconds(30);
  options.ca_file = Variable("STORE_CA");
  options.token_file = Variable("STORE_TOKEN_FILE");
  options.s3_endpoint = Variable("STORE_ENDPOINT");
  if (!Variable("STORE_VIRTUAL_HOST").empty()) options.s3_virtual_host = true;
  return options;
}

constexpr uint64_t kMaxBytes = 1 << 20;

uint64_t MaxFetchBytes() {
  const std::string text = Variable("STORE_MAX_BYTES");
  return text.empty() ? std::numeric_limits<uint64_t>::max() : std::stoull(text);
}

std::string Run(Store& store, const std::string& operation, const std::string& key,
                const std::string& file) {
  const auto content = [&] { return ReadFile(file, uint64_t{1} << 32); };
  if (operation == "get") return store.Get(key, kMaxBytes).value_or("(missing)");
  if (operation == "range") return store.GetRange(key, 2, 3);
  if (operation == "size") {
    const auto size = store.Size(key);
    return size ? std::to_string(*size) : "(missing)";
  }
  if (operation == "fetch") return store.Fetch(key, file, MaxFetchBytes()), "";
  if (operation == "put") return store.Put(key, AsBytes(content())), "";
  if (operation == "putfile") return FormatSha256(store.PutFile(key, file).sha256);
  if (operation == "create") return store.Create(key, AsBytes(content())) ? "true" : "false";
  if (operation == "list") return fmt::format("{}", fmt::join(store.List(key), " "));
  if (operation == "delete") return store.Delete(key), "";
  if (operation == "probe") return CheckCreateIsConditional(store), "";
  Throw(ErrorCode::kInvalid, "no operation {}", operation);
}

void RunAndPrint(Store& store, const std::string& operation, const std::string& key,
                 const std::string& file) {
  try {
    fmt::print("ok {}\n", Run(store, operation, key, file));
  } catch (const Error& error) {
    fmt::print("{}: {}\n", ErrorCodeName(error.code()), error.what());
  }
  std::fflush(stdout);
}

int Main(const std::vector<std::string>& arguments) {
  const auto at = [&](size_t i) { return i < arguments.size() ? arguments[i] : ""; };
  try {
    const std::unique_ptr<Store> store = OpenStore(at(0), Options());
    if (Variable("STORE_LINES").empty()) {
      RunAndPrint(*store, at(1), at(2), at(3));
      return 0;
    }
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream words(line);
      std::string operation, key, file;
      words >> operation >> key >> file;
      RunAndPrint(*store, operation, key, file);
    }
  } catch (const Error& error) {
    fmt::print("{}: {}\n", ErrorCodeName(error.code()), error.what());
  }
  return 0;
}

}  // namespace
}  // namespace isthmus::store

int main(int argc, char** argv) { return isthmus::store::Main({argv + 1, argv + argc}); }
