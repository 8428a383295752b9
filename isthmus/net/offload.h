// Blocking work beside a loop: disks, stores, checkpoints.
#ifndef ISTHMUS_NET_OFFLOAD_H_
#define ISTHMUS_NET_OFFLOAD_H_

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "isthmus/net/task.h"

namespace isthmus::net {

// Runs `work` on a thread of `workers` and resumes on the loop with what it returned or threw. It
// cannot be cancelled. If the loop ends first, the work still runs to its end and its result is
// dropped: what it uses must live until `workers` is joined. Give `work` as a variable, moved, if
// it captures anything that has a destructor (GCC 12, see below).
template <typename Work>
Task<std::invoke_result_t<Work&>> Offload(asio::thread_pool& workers, Work work) {
  using Result = std::invoke_result_t<Work&>;
  struct State {
    explicit State(Work w) : work(std::move(w)) {}
    Work work;
    std::optional<Result> result;
    std::exception_ptr failure;
  };
  auto state = std::make_shared<State>(std::move(work));
  // A variable: GCC 12 destroys closures twice that are temporaries of a co_await expression.
  auto begin = [&workers, state](auto handler) {
    auto busy = asio::make_work_guard(asio::get_associated_executor(handler));
    asio::post(workers, [state, busy = std::move(busy), handler = std::move(handler)]() mutable {
      try {
        state->result.emplace(state->work());
      } catch (...) {
        state->failure = std::current_exception();
      }
      const auto executor = busy.get_executor();
      asio::post(executor, std::move(handler));
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<Executor>, void()>(begin, kAwait);
  if (state->failure) std::rethrow_exception(state->failure);
  co_return std::move(*state->result);
}

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_OFFLOAD_H_
