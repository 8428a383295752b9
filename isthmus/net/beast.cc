// Beast, and Asio's TLS, compiled once.
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
