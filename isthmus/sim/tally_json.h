// A tally as JSON; docs/simulate.md lists the fields.
#ifndef ISTHMUS_SIM_TALLY_JSON_H_
#define ISTHMUS_SIM_TALLY_JSON_H_

#include <boost/json/object.hpp>

#include "isthmus/sim/tally.h"

namespace isthmus::sim {

boost::json::object ToJson(const Tally& tally);

}  // namespace isthmus::sim

#endif  // ISTHMUS_SIM_TALLY_JSON_H_
