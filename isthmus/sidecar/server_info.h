// What a sidecar says about itself: GET /server_info.
#ifndef ISTHMUS_SIDECAR_SERVER_INFO_H_
#define ISTHMUS_SIDECAR_SERVER_INFO_H_

#include <boost/json/object.hpp>
#include <string>

#include "isthmus/sidecar/engine_group.h"
#include "isthmus/sidecar/gate.h"
#include "isthmus/sidecar/reconciler.h"
#include "isthmus/sidecar/stager.h"

namespace isthmus::sidecar {

// Whether requests are admitted at a version that is not revoked.
bool IsReady(const Gate& gate);

// docs/request-lane.md, "Of the sidecar itself".
boost::json::object ServerInfo(const std::string& run, const Gate& gate,
                               const Reconciler& reconciler, const EngineGroup& engines,
                               const Stager& stager);

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_SERVER_INFO_H_
