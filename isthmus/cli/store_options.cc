// --s3-… and --board-…: how to reach a board's store.
#include "isthmus/cli/command.h"

namespace isthmus::cli {

store::StoreOptions StoreArguments::Options() const {
  store::StoreOptions all = options;
  if (virtual_host) all.s3_virtual_host = true;
  if (path_style) all.s3_virtual_host = false;
  all.deadline = std::chrono::seconds(deadline_s);
  return all;
}

void AddStoreOptions(CLI::App* command, StoreArguments* arguments) {
  store::StoreOptions& options = arguments->options;
  command->add_option("--s3-endpoint", options.s3_endpoint,
                      "URL of an S3 server (default: AWS_ENDPOINT_URL…, else Amazon's)");
  command->add_option("--s3-region", options.s3_region,
                      "Region of the bucket (default: AWS_REGION…, else us-east-1)");
  CLI::Option* virtual_host = command->add_flag("--s3-virtual-host", arguments->virtual_host,
                                                "Name the bucket in the host (default at Amazon)");
  command
      ->add_flag("--s3-path-style", arguments->path_style,
                 "Name the bucket in the path (default elsewhere)")
      ->excludes(virtual_host);
  command->add_option("--board-ca", options.ca_file, "PEM file of the authority of an https board");
  command->add_option("--board-token-file", options.token_file,
                      "File with the bearer token that an http board asks for");
  command
      ->add_option("--board-deadline-s", arguments->deadline_s,
                   "Most that a request to the store is tried again")
      ->check(CLI::Range(uint64_t{1}, uint64_t{86'400}))
      ->capture_default_str();
}

}  // namespace isthmus::cli
