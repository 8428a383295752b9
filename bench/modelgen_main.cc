// isthmus-modelgen: see modelgen.h.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "bench/modelgen.h"
#include "isthmus/base/error.h"

namespace isthmus::bench {
namespace {

constexpr char kDescription[] =
    "Writes OUT/step-0 ... OUT/step-(N-1): Hugging Face checkpoints of a made-up BF16 model at "
    "consecutive steps of AdamW. Equal options give equal files.\n"
    "Example: isthmus-modelgen /tmp/model --bytes 1GiB --steps 4";

// The exit codes of the program isthmus.
int ExitCode(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      return 2;
    case ErrorCode::kNotFound:
      return 3;
    case ErrorCode::kConflict:
      return 4;
    case ErrorCode::kCorrupt:
    case ErrorCode::kPoisoned:
      return 5;
    case ErrorCode::kNotReady:
    case ErrorCode::kUnavailable:
      return 6;
    case ErrorCode::kInternal:
      return 1;
  }
  return 1;
}

void AddOptions(CLI::App* app, ModelgenOptions* options, size_t* threads) {
  app->add_option("OUT", options->out, "directory, new or empty")->required();
  app->add_option("--bytes", options->bytes, "bytes of a step's tensors, about; 2MiB or more")
      ->required()
      ->transform(CLI::AsSizeValue(false));
  app->add_option("--steps", options->steps, "checkpoints to write")->capture_default_str();
  app->add_option("--seed", options->seed, "of all randomness")->capture_default_str();
  app->add_option("--lr", options->learning_rate, "AdamW's learning rate")->capture_default_str();
  app->add_option("--warmup", options->warmup, "updates before step 0")->capture_default_str();
  app->add_option("--threads", *threads, "0: one per core")->capture_default_str();
}

void Print(const GeneratedStep& step, bool first) {
  fmt::print("{}: {} bytes", step.directory.string(), step.file_bytes);
  if (!first) {
    fmt::print(", {} of {} elements changed ({:.4f} %)", step.changed, step.elements,
               100.0 * static_cast<double>(step.changed) / static_cast<double>(step.elements));
  }
  fmt::print("\n");
}

void Run(const ModelgenOptions& options, size_t threads) {
  ThreadPool pool(threads);
  bool first = true;
  for (const GeneratedStep& step : GenerateModel(options, pool)) {
    Print(step, first);
    first = false;
  }
}

int Main(int argc, char** argv) {
  ModelgenOptions options;
  size_t threads = 0;
  CLI::App app(kDescription);
  AddOptions(&app, &options, &threads);
  try {
    app.parse(argc, argv);
    Run(options, threads);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const Error& error) {
    fmt::print(stderr, "isthmus-modelgen: {}\n", error.what());
    return ExitCode(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "isthmus-modelgen: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace isthmus::bench

int main(int argc, char** argv) { return isthmus::bench::Main(argc, argv); }
