#include "isthmus/engine/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "isthmus/base/error.h"

namespace isthmus::engine {

namespace asio = net::asio;
using boost::system::error_code;

namespace {

using Descriptor = asio::posix::basic_stream_descriptor<net::Executor>;

// A last line that is longer loses its beginning.
constexpr size_t kKeptBytes = 4096;
// More than a pipe holds (64 KiB).
constexpr int kPiecesAtOnce = 64;

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) ThrowErrno(errno, "make", "pipe");
  return {ends[0], ends[1]};
}

// What the child changes in itself before it becomes the program.
class SpawnSettings {
 public:
  explicit SpawnSettings(int standard_error) {
    posix_spawn_file_actions_init(&files_);
    posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files_, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&files_, standard_error, STDERR_FILENO);
    // Sockets above all: a listening one would keep its port after this process has ended.
    posix_spawn_file_actions_addclosefrom_np(&files_, STDERR_FILENO + 1);
    sigset_t all;
    sigset_t none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  // An errno, or zero.
  int Spawn(const std::vector<std::string>& command, pid_t* process) const {
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (const std::string& argument : command)
      arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    return posix_spawn(process, command[0].c_str(), &files_, &attributes_, arguments.data(),
                       environ);
  }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

}  // namespace

// Shared with the reading of standard error, which may end after the program's object.
struct Program::State : std::enable_shared_from_this<State> {
  explicit State(net::Loop& loop) : end(loop.get_executor()), standard_error(loop.get_executor()) {}

  void Start(const std::vector<std::string>& command) {
    const Pipe pipe = MakePipe();
    standard_error.assign(pipe.read);
    const int problem = SpawnSettings(pipe.write).Spawn(command, &process);
    ::close(pipe.write);
    if (problem != 0) {
      Throw(ErrorCode::kInvalid, "run {}: {}", command[0], std::strerror(problem));
    }
    running = true;
    const long fd = ::syscall(SYS_pidfd_open, process, 0);
    if (fd < 0) ThrowErrno(errno, "watch process of", command[0]);
    end.assign(static_cast<int>(fd));
    standard_error.non_blocking(true);
    Watch();
  }

  // Reads all along, so that a program that says much is not held up.
  void Watch() {
    standard_error.async_wait(Descriptor::wait_read, [self = shared_from_this()](error_code error) {
      if (!error && self->Take()) self->Watch();
    });
  }
  // Takes what is there, but not for ever: what the program has left behind may go on writing.
  // False once there will be no more.
  bool Take() {
    error_code error;
    std::array<char, kKeptBytes> piece;
    for (int i = 0; i < kPiecesAtOnce; ++i) {
      const size_t size = standard_error.read_some(asio::buffer(piece), error);
      if (error) return error == asio::error::would_block;
      tail.append(piece.data(), size);
      if (tail.size() > kKeptBytes) tail.erase(0, tail.size() - kKeptBytes);
    }
    return true;
  }

  void Kill() {
    if (running) ::kill(-process, SIGKILL);
    if (running) ::waitpid(process, nullptr, WNOHANG);
    error_code ignored;
    standard_error.close(ignored);
    end.close(ignored);
  }

  pid_t process = 0;
  bool running = false;
  bool ending = false;  // End was called
  int wait_status = 0;
  Descriptor end;  // the process's pidfd
  Descriptor standard_error;
  std::string tail;
};

Program::Program(net::Loop& loop, const std::vector<std::string>& command)
    : state_(std::make_shared<State>(loop)) {
  try {
    state_->Start(command);
  } catch (...) {
    state_->Kill();
    throw;
  }
}

Program::~Program() { state_->Kill(); }

Task<void> Program::Wait() {
  if (!state_->running) co_return;
  co_await state_->end.async_wait(Descriptor::wait_read, net::kAwait);
  // Before the program is reaped: until then nobody else can have the number of its group.
  if (state_->ending) ::kill(-state_->process, SIGKILL);
  if (::waitpid(state_->process, &state_->wait_status, 0) < 0) {
    ThrowErrno(errno, "wait for", "program");
  }
  state_->running = false;
  state_->standard_error.cancel();
  state_->Take();
}

void Program::End(int signal) {
  state_->ending = true;
  if (state_->running) ::kill(-state_->process, signal);
}

std::string Program::HowItEnded() const {
  const int status = state_->wait_status;
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

bool Program::succeeded() const {
  return !state_->running && WIFEXITED(state_->wait_status) &&
         WEXITSTATUS(state_->wait_status) == 0;
}

std::string Program::LastLine() const {
  const std::string& tail = state_->tail;
  const size_t end = tail.find_last_not_of("\r\n \t");
  if (end == tail.npos) return "";
  const size_t line_end = tail.find_last_of("\r\n", end);
  const size_t begin = line_end == tail.npos ? 0 : line_end + 1;
  return tail.substr(begin, end + 1 - begin);
}

}  // namespace isthmus::engine
