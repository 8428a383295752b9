// Work on all cores.
#ifndef ISTHMUS_BASE_THREAD_POOL_H_
#define ISTHMUS_BASE_THREAD_POOL_H_

#include <cstddef>
#include <functional>
#include <memory>

namespace isthmus {

// A fixed set of worker threads that live as long as the pool. ParallelFor may be called from one
// thread at a time, never from inside a task.
class ThreadPool {
 public:
  // 0 means one thread per core that this process may run on. With 1 there are no extra threads.
  explicit ThreadPool(size_t thread_count = 0);
  ~ThreadPool();

  size_t thread_count() const { return thread_count_; }

  // Calls task(i) for each i in [0, count), in rising order of start, the caller's thread taking
  // part, and returns when all ended. If tasks throw, no new ones start and the first exception
  // is rethrown here.
  void ParallelFor(size_t count, const std::function<void(size_t)>& task);

 private:
  struct Workers;
  size_t thread_count_;
  std::unique_ptr<Workers> workers_;
};

}  // namespace isthmus

#endif  // ISTHMUS_BASE_THREAD_POOL_H_
