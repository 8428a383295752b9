// A service that loads: POST {"checkpoint":…,"weight_version":…}, 2xx once the weights are in use.

#include <boost/json/object.hpp>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/engine/adapters.h"
#include "isthmus/engine/control.h"
#include "isthmus/engine/loader.h"

namespace isthmus::engine {
namespace {

struct Url {
  net::Origin origin;
  std::string target;  // path and query
};

Url ParseUrl(const std::string& url) {
  const size_t authority = url.find("://");
  const size_t path = authority == url.npos ? url.npos : url.find_first_of("/?#", authority + 3);
  if (url.find_first_of(" \t\r\n#") != url.npos) {
    Throw(ErrorCode::kInvalid, "URL {:?}: blanks, line ends and fragments are not allowed", url);
  }
  Url parsed = {net::Origin::Parse(url.substr(0, path)), "/"};
  if (path == url.npos) return parsed;
  parsed.target = (url[path] == '/' ? "" : "/") + url.substr(path);
  return parsed;
}

class Webhook final : public Loader {
 public:
  Webhook(net::Loop& loop, std::string name, Url url, EngineOptions options)
      : Loader(name),
        limits_(options.limits),
        target_(std::move(url.target)),
        control_(loop, std::move(name), std::move(url.origin), std::move(options.bearer_token),
                 std::move(options.tls)) {}

  // There is nothing that could be asked without asking for a load.
  Task<Abilities> Probe() override { co_return Abilities(); }

  Task<void> Load(fs::path checkpoint, std::string label) override {
    const boost::json::value body = {{"checkpoint", checkpoint.string()},
                                     {"weight_version", label}};
    co_await control_.Post(Budget(limits_.load), target_, body);
  }

 private:
  EngineLimits limits_;
  std::string target_;
  Control control_;
};

}  // namespace

std::unique_ptr<Engine> MakeWebhook(net::Loop& loop, const EngineSpec& spec,
                                    const EngineOptions& options) {
  return std::make_unique<Webhook>(loop, spec.kind + ":" + spec.target, ParseUrl(spec.target),
                                   options);
}

}  // namespace isthmus::engine
