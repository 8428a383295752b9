#include "call.h"

#include <nanobind/nanobind.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace isthmus::python {
namespace {

namespace nb = nanobind;

// How late a Ctrl-C may be noticed.
constexpr std::chrono::milliseconds kLookInterval{50};

// The exception that a signal's handler raised, if one did.
std::exception_ptr RaisedBySignal() {
  const nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return nullptr;
  try {
    throw nb::python_error();
  } catch (...) {
    return std::current_exception();
  }
}

// Work on a thread of its own.
class Errand {
 public:
  explicit Errand(const std::function<void()>& work) : thread_([this, &work] { Run(work); }) {}
  ~Errand() { thread_.join(); }
  Errand(const Errand&) = delete;
  Errand& operator=(const Errand&) = delete;

  bool WaitFor(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, time, [this] { return done_; });
  }
  // After it has ended.
  const std::exception_ptr& error() const { return error_; }

 private:
  void Run(const std::function<void()>& work) {
    try {
      work();
    } catch (...) {
      error_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    done_ = true;
    ended_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

void RunStoppable(const std::function<void()>& work, const std::function<void()>& stop) {
  std::exception_ptr signalled;
  std::exception_ptr failed;
  {
    const nb::gil_scoped_release release;
    Errand errand(work);
    while (!errand.WaitFor(kLookInterval)) {
      if (signalled) continue;
      signalled = RaisedBySignal();
      if (signalled) stop();
    }
    failed = errand.error();
  }
  if (signalled) std::rethrow_exception(signalled);
  if (failed) std::rethrow_exception(failed);
}

}  // namespace isthmus::python
