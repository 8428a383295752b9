// The coroutines of this layer, and what runs them.
//
// One thread runs one loop, and everything made for a loop (server, client, calls) is used on its
// thread only: there are no locks, and what a proxy must decide in one step (admission and the
// served version) it decides between two awaits. A machine with more work than one thread can do
// runs several loops, each with a server (ServerOptions::reuse_port) and a client of its own. From
// another thread only asio::post(loop, ...) and co_spawn are allowed, so a loop needs a safe
// concurrency hint.
#ifndef ISTHMUS_NET_TASK_H_
#define ISTHMUS_NET_TASK_H_

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace isthmus::net {

namespace asio = boost::asio;

using Loop = asio::io_context;
// Naming the executor's type spares every operation the type-erased one.
using Executor = Loop::executor_type;

// A coroutine that gives a T; runs when awaited, or by asio::co_spawn on a loop. Cancellation is
// Asio's: an operation that is cancelled throws boost::system::system_error (operation_aborted).
template <typename T>
using Task = asio::awaitable<T, Executor>;

// The completion token that makes an Asio operation awaitable in a Task.
inline constexpr asio::use_awaitable_t<Executor> kAwait;

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_TASK_H_
