// --encoding, as several commands take it.
#ifndef ISTHMUS_CLI_ENCODING_OPTION_H_
#define ISTHMUS_CLI_ENCODING_OPTION_H_

#include <CLI/CLI.hpp>
#include <string>

#include "isthmus/codec/diff.h"

namespace isthmus::cli {

struct EncodingOption {
  std::string name = "auto";

  void AddTo(CLI::App* command) {
    command->add_option("--encoding", name, "auto: the smallest for each chunk")
        ->check(CLI::IsMember({"auto", "context", "direct", "xor", "raw"}))
        ->capture_default_str();
  }
  codec::EncodingPolicy policy() const { return codec::ParseEncoding(name); }
};

}  // namespace isthmus::cli

#endif  // ISTHMUS_CLI_ENCODING_OPTION_H_
