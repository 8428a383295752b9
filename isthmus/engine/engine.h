// An inference engine as its sidecar drives it: the port that adapters implement.
//
// A switch of versions is, in this order, Pause, Load, Flush, Verify, Resume, Canary, on every
// engine of the island. The port does not retry: each call is made once, has one deadline, and
// tells what it found. Engines change from release to release, so an adapter looks at what an
// engine offers (Probe) and never at its version string. docs/engines.md says what each adapter
// sends.
//
// What a failure means depends on the call. Until Load begins the weights are untouched. From then
// until Verify has succeeded they are unknown, whatever the error says: a time-out is no proof that
// nothing happened. Errors are kUnavailable (no answer, or a failure that the engine reports),
// kInvalid (this engine cannot be driven: what it lacks, or that it refuses the token), kCorrupt
// (an answer that is not what the engine's interface says, or a label that is not the one that was
// given); all name engine, route and what was found.
//
// What no call can find out: a load that answers well and changed nothing, or not every tensor; a
// cache of a store outside the engine that stayed. Against the first, compare what Canary returns;
// against the second, use a salt for each version (Abilities::salt_field).
#ifndef ISTHMUS_ENGINE_ENGINE_H_
#define ISTHMUS_ENGINE_ENGINE_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/file.h"
#include "isthmus/net/deadline.h"
#include "isthmus/net/http.h"
#include "isthmus/net/task.h"
#include "isthmus/net/tls.h"

namespace isthmus::engine {

using net::Task;

// What happens inside the engine to requests that it is generating for.
enum class PauseMode {
  kKeep,   // frozen; after Resume they go on, their cached keys and values computed anew
  kWait,   // they finish first
  kAbort,  // they end now, with what they have
};

// What an engine can do, as found by asking it.
struct Abilities {
  bool pauses = false;       // else Pause, Flush and Resume succeed and do nothing
  bool keeps = false;        // PauseMode::kKeep
  bool labels = false;       // has a label for its weights that can be set and read back
  bool tells_pause = false;  // says whether it is paused
  bool generates = false;    // has a generation route that Canary can use
  // The field of a generation request that keeps its cached prefixes apart: "cache_salt",
  // "extra_key", or empty if there is none.
  std::string salt_field;
};

// What an engine says about itself now.
struct EngineState {
  // True as soon as a pause has begun, so no proof that it is complete; nullopt: it does not tell.
  std::optional<bool> paused;
  std::optional<std::string> label;  // of its weights; nullopt: it has none
};

// A step from one version to the next.
struct Changes {
  fs::path file;     // docs/changes-file.md; all workers see it
  std::string base;  // the digest of the version that it changes
  std::string label;
};

// The deadline of each call, for all that it asks of the engine; above zero.
struct EngineLimits {
  net::Milliseconds probe{10'000};
  net::Milliseconds inspect{10'000};
  net::Milliseconds settle{600'000};  // Settle: as long as a load may take
  net::Milliseconds pause{600'000};   // kWait and kAbort wait for the engine's own requests
  net::Milliseconds load{600'000};
  net::Milliseconds flush{30'000};
  net::Milliseconds verify{30'000};
  net::Milliseconds resume{30'000};
  net::Milliseconds canary{60'000};
};

// Used on its loop's thread only, one call at a time.
class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // "vllm:http://127.0.0.1:8000": for messages, logs and metrics.
  virtual const std::string& name() const = 0;
  // Where generation requests go; nullopt if this engine takes none from the sidecar.
  virtual const std::optional<net::Origin>& origin() const = 0;

  // Asks what the engine offers, and remembers it for the other calls, which need it first
  // (kInternal), and again after the engine was restarted. kInvalid if something is missing without
  // which no switch is safe, naming all of it. kUnavailable while the engine is not up.
  virtual Task<Abilities> Probe() = 0;
  virtual Task<EngineState> Inspect() = 0;

  // Returns when no load that anybody asked for before can still be running in the engine. After a
  // restart of the sidecar, or a call that timed out, nothing else may be sent until then.
  virtual Task<void> Settle() = 0;

  // Returns when the engine has confirmed that it generates nothing. An engine that is paused
  // already stays paused, and it is confirmed anew. After a failure the engine may be paused or
  // become so: only a Pause that succeeds, with kAbort if need be, makes a Resume safe. kInvalid if
  // the engine does not have this mode.
  virtual Task<void> Pause(PauseMode mode) = 0;
  // Makes all ranks load the checkpoint, of which nothing is known to them but the path, and gives
  // the weights their label. Only while paused.
  virtual Task<void> Load(fs::path checkpoint, std::string label) = 0;
  // Makes ready to write changes into the weights in use, which are those of the checkpoint, the
  // version with this digest. Empty: LoadChanges may follow, until the next Load; else why it may
  // not: engines without a plug-in for it, or whose weights are not where a checkpoint says. Only
  // while paused.
  virtual Task<std::string> Learn(fs::path checkpoint, std::string digest);
  // Begins to read what LoadChanges will write first, while the engine generates. Changes nothing:
  // a failure costs the pause that it would have shortened, no more.
  virtual Task<void> PrepareChanges(Changes step);
  // As Load, but the engine writes only what changed, one step after the other, each with its
  // label, into the weights that it holds. Only while paused, after a Learn. A failure is as one of
  // Load.
  virtual Task<void> LoadChanges(std::vector<Changes> steps);
  // Empties every cache that holds what old weights computed. Only while paused.
  virtual Task<void> Flush() = 0;
  // Reads back that the label is this one, as far as the engine has labels; kCorrupt if it is not.
  virtual Task<void> Verify(std::string label) = 0;
  // Ends the pause. Does nothing to an engine that says it is not paused: one pause is ended once.
  virtual Task<void> Resume() = 0;
  // Generates one token from a fixed prompt and returns its log-probability; nullopt if the engine
  // does not generate for the sidecar. kCorrupt if that is not a finite number, or if the engine
  // says that part of the prompt came from a cache. The same number, to the last bit, before and
  // after a switch to other weights is a sign (no proof) that the load changed nothing.
  virtual Task<std::optional<double>> Canary() = 0;
};

// Which engine, as the command line names it: "KIND:TARGET", with KIND one of
//   vllm, sglang   TARGET is the engine's address, for example http://127.0.0.1:8000
//   command        TARGET is a program's absolute path; run as PROGRAM CHECKPOINT LABEL
//   webhook        TARGET is a URL; gets POST {"checkpoint":…,"weight_version":…}
// The last two only load: how the weights come into use is their own affair.
struct EngineSpec {
  std::string kind;
  std::string target;

  static EngineSpec Parse(std::string_view text);  // kInvalid
};

struct EngineOptions {
  EngineLimits limits;
  std::string bearer_token;                   // sent with every control call; empty: none
  std::shared_ptr<const net::ClientTls> tls;  // for https targets
};

// kInvalid for an unknown kind or a malformed target.
std::unique_ptr<Engine> MakeEngine(net::Loop& loop, const EngineSpec& spec,
                                   const EngineOptions& options);

}  // namespace isthmus::engine

#endif  // ISTHMUS_ENGINE_ENGINE_H_
