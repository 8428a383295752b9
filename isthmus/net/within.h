// A time limit for any coroutine.
#ifndef ISTHMUS_NET_WITHIN_H_
#define ISTHMUS_NET_WITHIN_H_

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/this_coro.hpp>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/net/deadline.h"
#include "isthmus/net/task.h"

namespace isthmus::net {

using SteadyTimer =
    asio::basic_waitable_timer<DeadlineList::SteadyClock,
                               asio::wait_traits<DeadlineList::SteadyClock>, Executor>;

// Waits for so long; cancellable.
inline Task<void> Sleep(Milliseconds time) {
  const auto executor = co_await asio::this_coro::executor;
  SteadyTimer timer(executor, time);
  co_await timer.async_wait(kAwait);
}

// What `task` gives. After `limit`, which is exact and not subject to a list's tick, what the task
// awaits is cancelled, and when it has ended kUnavailable is thrown, which says `what` took too
// long; a task that ended well all the same has its result returned. A limit of zero or less is
// over at once: the task begins and is cancelled where it first waits. Cancelling this cancels the
// task. T must have a default constructor. It costs a timer and a coroutine: for control calls, not
// for each piece of a stream (there, see DeadlineList).
template <typename T>
Task<T> Within(Milliseconds limit, Task<T> task, std::string what) {
  const auto executor = co_await asio::this_coro::executor;
  SteadyTimer timer(executor, limit);
  auto both = asio::experimental::make_parallel_group(
      asio::co_spawn(executor, std::move(task), asio::deferred), timer.async_wait(asio::deferred));
  auto ends = co_await both.async_wait(asio::experimental::wait_for_one(), kAwait);
  // The order in which they ended, then what each of them gave.
  const std::exception_ptr failure = std::get<1>(ends);
  if (failure) {
    const boost::system::error_code timer_error =
        std::get<std::tuple_size_v<decltype(ends)> - 1>(ends);
    if (timer_error) std::rethrow_exception(failure);
    Throw(ErrorCode::kUnavailable, "{}: not done within {} ms", what, limit.count());
  }
  if constexpr (!std::is_void_v<T>) co_return std::move(std::get<2>(ends));
}

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_WITHIN_H_
