#include "isthmus/base/thread_pool.h"

#include <sched.h>

#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>
#include <latch>
#include <mutex>

namespace isthmus {
namespace {

size_t AllowedCores() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return static_cast<size_t>(CPU_COUNT(&allowed));
}

// One ParallelFor: shared by the threads that work on it, and outlived by the call.
class Loop {
 public:
  Loop(size_t count, const std::function<void(size_t)>& task) : count_(count), task_(task) {}

  void Run() {
    for (size_t i = next_++; i < count_; i = next_++) {
      try {
        task_(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::current_exception();
        next_ = count_;
      }
    }
  }

  void Rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const size_t count_;
  const std::function<void(size_t)>& task_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

struct ThreadPool::Workers {
  explicit Workers(size_t count) : pool(count) {}
  boost::asio::thread_pool pool;
};

ThreadPool::ThreadPool(size_t thread_count)
    : thread_count_(thread_count == 0 ? AllowedCores() : thread_count) {
  if (thread_count_ > 1) workers_ = std::make_unique<Workers>(thread_count_ - 1);
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::ParallelFor(size_t count, const std::function<void(size_t)>& task) {
  Loop loop(count, task);
  const size_t helpers = count == 0 ? 0 : std::min(thread_count_, count) - 1;
  std::latch done(static_cast<std::ptrdiff_t>(helpers));
  for (size_t i = 0; i < helpers; ++i) {
    boost::asio::post(workers_->pool, [&loop, &done] {
      loop.Run();
      done.count_down();
    });
  }
  loop.Run();
  done.wait();
  loop.Rethrow();
}

}  // namespace isthmus
