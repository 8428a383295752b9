#include "isthmus/net/resolve.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>

#include "isthmus/base/error.h"

namespace isthmus::net {

using asio::ip::tcp;

Task<std::vector<tcp::endpoint>> Resolve(const Origin& origin) {
  std::vector<tcp::endpoint> endpoints;
  boost::system::error_code error;
  const auto address = asio::ip::make_address(origin.host, error);
  if (!error) {
    endpoints.emplace_back(address, origin.port);
    co_return endpoints;
  }
  const auto executor = co_await asio::this_coro::executor;
  asio::ip::basic_resolver<tcp, Executor> resolver(executor);
  const std::string port = fmt::format("{}", origin.port);
  const auto found =
      co_await resolver.async_resolve(origin.host, port, asio::redirect_error(kAwait, error));
  if (error) Throw(ErrorCode::kUnavailable, "resolve {}: {}", origin.host, error.message());
  for (const auto& entry : found) endpoints.push_back(entry.endpoint());
  co_return endpoints;
}

}  // namespace isthmus::net
