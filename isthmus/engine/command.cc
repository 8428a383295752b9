// A program that loads: PROGRAM CHECKPOINT LABEL, exit status 0 once the weights are in use.

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/engine/adapters.h"
#include "isthmus/engine/answer.h"
#include "isthmus/engine/loader.h"
#include "isthmus/engine/program.h"
#include "isthmus/net/within.h"

namespace isthmus::engine {
namespace {

// What a program may take to end on SIGTERM before it is killed; as long again for the kernel.
constexpr net::Milliseconds kGrace(2'000);

// Whether the program has ended within so long.
Task<bool> EndsWithin(Program& program, net::Milliseconds limit) {
  try {
    co_await net::Within(limit, program.Wait(), "program");
    co_return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
  }
  co_return false;
}

class Command final : public Loader {
 public:
  Command(net::Loop& loop, std::string name, std::string program, EngineLimits limits)
      : Loader(std::move(name)), loop_(loop), program_(std::move(program)), limits_(limits) {}

  Task<Abilities> Probe() override {
    if (::access(program_.c_str(), X_OK) != 0) {
      Throw(ErrorCode::kInvalid, "{}: not a program that can be run: {}", name(),
            std::strerror(errno));
    }
    co_return Abilities();
  }

  Task<void> Load(fs::path checkpoint, std::string label) override {
    const std::vector<std::string> command = {program_, checkpoint.string(), label};
    Program program(loop_, command);
    const bool in_time = co_await EndsWithin(program, limits_.load);
    if (!in_time) co_await End(program);
    if (in_time && program.succeeded()) co_return;
    const std::string how = in_time ? program.HowItEnded()
                                    : fmt::format("did not end within {} ms", limits_.load.count());
    Throw(ErrorCode::kUnavailable, "{}: load {}: the program {}; its last words: {}", name(),
          checkpoint.string(), how, Excerpt(program.LastLine()));
  }

 private:
  // When it returns nothing of the program's group loads any more.
  static Task<void> End(Program& program) {
    program.End(SIGTERM);
    const bool ended = co_await EndsWithin(program, kGrace);
    if (ended) co_return;
    program.End(SIGKILL);
    co_await EndsWithin(program, kGrace);
  }

  net::Loop& loop_;
  std::string program_;
  EngineLimits limits_;
};

}  // namespace

std::unique_ptr<Engine> MakeCommand(net::Loop& loop, const EngineSpec& spec,
                                    const EngineOptions& options) {
  if (!spec.target.starts_with('/')) {
    Throw(ErrorCode::kInvalid, "engine {}:{}: expected the absolute path of a program", spec.kind,
          spec.target);
  }
  return std::make_unique<Command>(loop, spec.kind + ":" + spec.target, spec.target,
                                   options.limits);
}

}  // namespace isthmus::engine
