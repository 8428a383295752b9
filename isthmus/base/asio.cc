// Asio itself, compiled once for all layers (BOOST_ASIO_SEPARATE_COMPILATION): two ways of
// compiling it in one program would be two definitions of the same functions.
#include <boost/asio/impl/src.hpp>
