#include "isthmus/board/small_object.h"

#include <boost/json/serialize.hpp>

namespace isthmus::board {

std::string ToText(const boost::json::object& object) {
  return boost::json::serialize(object) + "\n";
}

}  // namespace isthmus::board
