// How commands are made known to the command line. Each Add… declares a subcommand with its
// options, whose values live as long as the App, and the function that runs it.
#ifndef ISTHMUS_CLI_COMMAND_H_
#define ISTHMUS_CLI_COMMAND_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "isthmus/base/thread_pool.h"
#include "isthmus/board/board.h"
#include "isthmus/cli/output.h"
#include "isthmus/cli/progress_bar.h"

namespace isthmus::cli {

// What every command gets: the options before the subcommand, and the machine.
struct Context {
  bool json = false;
  size_t threads = 0;  // 0: one per core
  std::unique_ptr<Progress> progress = MakeProgress();
  // Set by commands that have reported a negative finding by themselves (verify).
  int exit_code = 0;

  ThreadPool& pool() {
    if (!pool_) pool_ = std::make_unique<ThreadPool>(threads);
    return *pool_;
  }

 private:
  std::unique_ptr<ThreadPool> pool_;
};

// How to reach a board's store; declared by AddStoreOptions.
struct StoreArguments {
  store::StoreOptions options;
  bool virtual_host = false;
  bool path_style = false;
  uint64_t deadline_s = 120;

  store::StoreOptions Options() const;
};
void AddStoreOptions(CLI::App* command, StoreArguments* arguments);

// --board and --run, as several commands take them.
struct BoardOptions {
  std::string board;
  std::string run;
  StoreArguments store;
  std::vector<std::string> trust;  // files of public keys
  std::string sign_key;            // file of a private key; empty: what is written is not signed

  board::Trust ReadTrust() const;
  board::Board Open() const {
    board::CheckRunName(run);
    return board::Board::Open(store::OpenStore(board, store.Options()), ReadTrust());
  }
  // For a command that will soon ask for these objects.
  board::Board OpenAndReadAhead(const std::vector<std::string>& keys) const;
};
// `required` false: for commands that have another mode.
void AddBoardOptions(CLI::App* command, BoardOptions* options, bool required = true);

// --sign-key, for commands that write what may be signed.
void AddSignOption(CLI::App* command, BoardOptions* options);

void AddDiff(CLI::App& app, Context& context);
void AddSquash(CLI::App& app, Context& context);
void AddApply(CLI::App& app, Context& context);
void AddVerify(CLI::App& app, Context& context);
void AddInspect(CLI::App& app, Context& context);
void AddPublish(CLI::App& app, Context& context);
void AddPull(CLI::App& app, Context& context);
void AddLog(CLI::App& app, Context& context);
void AddBoard(CLI::App& app, Context& context);
// anchor, pin, unpin and gc, below `board`.
void AddUpkeep(CLI::App* board, Context& context);
void AddFork(CLI::App* board, Context& context);  // below the command `board`
void AddKey(CLI::App& app, Context& context);
void AddBoardServe(CLI::App& board, Context& context);  // below the command `board`
void AddSidecar(CLI::App& app, Context& context);
void AddGateway(CLI::App& app, Context& context);
void AddSimulate(CLI::App& app, Context& context);
void AddStatus(CLI::App& app, Context& context);
void AddRollouts(CLI::App& app, Context& context);
void AddCompletion(CLI::App& app, Context& context);

}  // namespace isthmus::cli

#endif  // ISTHMUS_CLI_COMMAND_H_
