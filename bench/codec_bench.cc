// isthmus-bench-codec: the bits that each way to store a change takes, and the codec's inner loops
// on one core, against memcpy and memcmp. Prints CSV; docs/benchmarks.md explains the rows.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "bench/codec_sizes.h"
#include "bench/codec_speeds.h"
#include "bench/measure.h"
#include "bench/step_pairs.h"
#include "isthmus/base/error.h"
#include "isthmus/codec/simd.h"

namespace isthmus::bench {
namespace {

constexpr std::string_view kEveryTarget = "all";
constexpr std::string_view kBestTarget = "best";

struct Options {
  PairPlaces places;
  SpeedOptions speeds;
  std::string only;
  std::string pair;
  bool copy_only = false;

  bool Wants(std::string_view part) const { return only.empty() || only == part; }
};

void TimeCopyOnly(const Options& options) {
  const ByteVector from(options.places.bytes, std::byte{1});
  ByteVector to(from.size());
  const auto seconds = TimeInTurn({{[&] { std::memcpy(to.data(), from.data(), from.size()); }}},
                                  options.speeds.rounds);
  Consume(std::to_integer<uint64_t>(to.back()));
  PrintRow("memory", "memcpy", "speed", static_cast<double>(from.size()) / Median(seconds[0]) / 1e9,
           "GB/s");
}

// Names are checked before anything is measured.
void ChooseTargets(std::vector<std::string>* simd) {
  if (simd->empty()) *simd = {std::string(kBestTarget)};
  if (simd->size() == 1 && simd->front() == kEveryTarget) *simd = codec::SimdTargets();
  for (std::string& name : *simd) {
    if (name == kBestTarget) name = codec::SimdTargets().front();
    codec::SelectSimd(name);
  }
  codec::SelectSimd("");
}

void Run(Options options) {
  PrintHeader();
  if (options.copy_only) return TimeCopyOnly(options);
  if (options.places.scratch.empty()) Throw(ErrorCode::kInvalid, "SCRATCH is required");
  ChooseTargets(&options.speeds.simd);
  ThreadPool pool;
  ForEachPair(options.places, options.pair, options.Wants("sizes"), pool,
              [&](const StepPair& pair) {
                if (options.Wants("sizes")) PrintSizes(pair, pool);
                // A real pair is no larger than a core's caches.
                if (options.Wants("speeds") && pair.generated) PrintSpeeds(pair, options.speeds);
                std::fflush(stdout);
              });
}

void AddOptions(CLI::App* app, Options* options) {
  app->add_option("SCRATCH", options->places.scratch, "directory for generated models");
  app->add_option("--real", options->places.real, "directory with bf16/step-37 ... fp8/step-40");
  app->add_option("--only", options->only, "one part of the measurements")
      ->check(CLI::IsMember({"sizes", "speeds"}));
  app->add_option("--pair", options->pair, "only pairs whose label contains this");
  app->add_option(
         "--simd", options->speeds.simd,
         "SIMD targets for speeds, in turn: best (the default), all, or names as of SimdTargets")
      ->delimiter(',');
  app->add_option("--bytes", options->places.bytes, "bytes of a generated step")
      ->transform(CLI::AsSizeValue(false));
  app->add_option("--rounds", options->speeds.rounds, "timed runs of each loop")
      ->capture_default_str();
  app->add_flag("--copy-only", options->copy_only,
                "time memcpy and nothing else; needs no SCRATCH");
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures the codec and prints CSV (docs/benchmarks.md).");
  AddOptions(&app, &options);
  try {
    app.parse(argc, argv);
    Run(options);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "isthmus-bench-codec: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace isthmus::bench

int main(int argc, char** argv) { return isthmus::bench::Main(argc, argv); }
