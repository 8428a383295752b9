// How Python calls what takes long, and what a fork must not touch.
#ifndef ISTHMUS_PYTHON_SRC_CALL_H_
#define ISTHMUS_PYTHON_SRC_CALL_H_

#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/base/progress.h"
#include "isthmus/base/thread_pool.h"

namespace isthmus::python {

// Runs `work` on a thread of its own while the caller waits without the GIL and looks for signals,
// about twenty times a second. If Python's handler of one raises (Ctrl-C), `stop` is called, once,
// the end of the work is awaited, and that exception is thrown, whatever the work came to. Else
// what the work throws. The caller holds the GIL; `work` and `stop` must not need it.
void RunStoppable(const std::function<void()>& work, const std::function<void()>& stop);

// The same with a result.
template <typename Result>
Result CallStoppable(const std::function<Result()>& work, const std::function<void()>& stop) {
  std::optional<Result> result;
  RunStoppable([&] { result.emplace(work()); }, stop);
  return *std::move(result);
}

// Something that belongs to the process that made it: threads, locks, connections. In a child that
// was forked, use is refused (kInvalid), and the destructor does nothing.
template <typename T>
class Owned {
 public:
  explicit Owned(std::unique_ptr<T> value) : value_(std::move(value)) {}
  Owned(Owned&&) noexcept = default;
  Owned& operator=(Owned&&) noexcept = delete;
  ~Owned() {
    if (::getpid() != pid_) static_cast<void>(value_.release());
  }

  // kInvalid also after Close.
  T& Get() const {
    CheckProcess();
    if (!value_) Throw(ErrorCode::kInvalid, "use an object: it was closed");
    return *value_;
  }
  void Close() {
    CheckProcess();
    value_.reset();
  }

 private:
  void CheckProcess() const {
    if (::getpid() == pid_) return;
    Throw(ErrorCode::kInvalid,
          "use an object of process {} in its child {}: after a fork make a new one", pid_,
          ::getpid());
  }

  std::unique_ptr<T> value_;
  pid_t pid_ = ::getpid();
};

// Ends the work that it is given to at the next step, once for each Stop.
class StopProgress final : public Progress {
 public:
  void Begin(std::string_view /*label*/, uint64_t /*total_bytes*/) override { Look(); }
  void Advance(uint64_t /*bytes*/) override { Look(); }
  void End() override {}
  void Stop() { stop_ = true; }
  void Forget() { stop_ = false; }

 private:
  void Look() {
    if (stop_.load(std::memory_order_relaxed) && stop_.exchange(false)) throw Stopped();
  }

  std::atomic<bool> stop_ = false;
};

// The threads that one object's calls work on, one call at a time.
class Machine {
 public:
  // 0 threads: one per core.
  explicit Machine(size_t threads) : pool_(threads) {}

  ThreadPool& pool() { return pool_; }
  Progress& progress() { return progress_; }

  // CallStoppable, with `stop` (may be empty) besides ending the work itself. kInvalid if another
  // thread's call is going on.
  template <typename Result>
  Result Call(const std::function<Result()>& work, const std::function<void()>& stop = {}) {
    const Turn turn(busy_);
    progress_.Forget();
    return CallStoppable<Result>(work, [&] {
      progress_.Stop();
      if (stop) stop();
    });
  }

 private:
  class Turn {
   public:
    explicit Turn(std::atomic_flag& busy) : busy_(busy) {
      if (!busy_.test_and_set()) return;
      Throw(ErrorCode::kInvalid, "call an object: another thread's call is going on");
    }
    ~Turn() { busy_.clear(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    std::atomic_flag& busy_;
  };

  ThreadPool pool_;
  StopProgress progress_;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

}  // namespace isthmus::python

#endif  // ISTHMUS_PYTHON_SRC_CALL_H_
