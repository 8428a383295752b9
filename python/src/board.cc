#include "board.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "bind.h"
#include "call.h"
#include "isthmus/base/ed25519.h"

namespace isthmus::python {
namespace {

namespace nb = nanobind;
using board::Manifest;
using board::VersionNumber;

board::Trust ReadTrust(const BoardPlace& place) {
  board::Trust trust;
  if (!place.sign_key.empty()) trust.signer = SigningKey::Load(place.sign_key);
  for (const std::string& file : place.trust) {
    std::ranges::move(LoadPublicKeys(file), std::back_inserter(trust.trusted));
  }
  return trust;
}

std::vector<Manifest> ReadLog(const board::Board& board, const std::string& run,
                              VersionNumber after) {
  const VersionNumber head = board.Head(run);
  std::vector<Manifest> log;
  for (VersionNumber version = after + 1; version <= head; ++version) {
    std::optional<Manifest> manifest = board.Read(run, version);
    if (!manifest) {
      Throw(ErrorCode::kCorrupt, "read log of run {}: version {} is missing, {} exists", run,
            version, head);
    }
    log.push_back(*std::move(manifest));
  }
  return log;
}

// Python's Board.
class PyBoard {
 public:
  explicit PyBoard(BoardPlace place) : handle_(std::make_unique<BoardHandle>(std::move(place))) {}

  BoardHandle& handle() const { return handle_.Get(); }

  void Open(bool create) const {
    Ask<bool>([create, this](const auto& get) {
      if (create) Create();
      get();
      return true;
    });
  }
  std::string Uuid() const {
    return Ask<std::string>([](const auto& get) { return get().uuid(); });
  }
  std::vector<std::string> Runs() const {
    return Ask<std::vector<std::string>>([](const auto& get) { return get().Runs(); });
  }
  std::vector<Manifest> Log(const std::string& run, VersionNumber after) const {
    return Ask<std::vector<Manifest>>([&](const auto& get) { return ReadLog(get(), run, after); });
  }
  std::optional<Manifest> Read(const std::string& run, VersionNumber version) const {
    return Ask<std::optional<Manifest>>([&](const auto& get) { return get().Read(run, version); });
  }
  std::optional<Manifest> Head(const std::string& run) const {
    return Ask<std::optional<Manifest>>([&](const auto& get) -> std::optional<Manifest> {
      const VersionNumber head = get().Head(run);
      if (head == board::kNoVersion) return std::nullopt;
      return get().Read(run, head);
    });
  }

 private:
  using Getter = std::function<const board::Board&()>;

  template <typename Result>
  Result Ask(const std::function<Result(const Getter& get)>& question) const {
    BoardHandle& handle = handle_.Get();
    std::shared_ptr<OpenBoard> open;
    const Getter get = [&]() -> const board::Board& {
      open = handle.Get();
      return open->board;
    };
    return CallStoppable<Result>([&] { return question(get); }, [&] { handle.Stop(); });
  }

  // A board that is there already is not touched.
  void Create() const {
    const BoardPlace& place = handle_.Get().place();
    const auto store = store::OpenStore(place.url, place.store);
    if (!store->Size("board.json")) board::Board::Init(*store);
  }

  Owned<BoardHandle> handle_;
};

std::unique_ptr<PyBoard> NewBoard(const std::string& url, bool create,
                                  const std::string& s3_endpoint, const std::string& s3_region,
                                  std::optional<bool> s3_virtual_host, const std::string& ca_file,
                                  const std::string& token_file, double deadline_s,
                                  std::vector<std::string> trust, const std::string& sign_key) {
  BoardPlace place = {url, {}, std::move(trust), sign_key};
  place.store.s3_endpoint = s3_endpoint;
  place.store.s3_region = s3_region;
  place.store.s3_virtual_host = s3_virtual_host;
  place.store.ca_file = ca_file;
  place.store.token_file = token_file;
  if (!(deadline_s > 0 && deadline_s <= 86'400)) {
    Throw(ErrorCode::kInvalid,
          "open board {}: a deadline of {} s, more than 0 and at most 86400 allowed", url,
          deadline_s);
  }
  place.store.deadline = std::chrono::milliseconds(static_cast<int64_t>(deadline_s * 1000));
  auto board = std::make_unique<PyBoard>(std::move(place));
  board->Open(create);
  return board;
}

int64_t CreatedMs(const Manifest& manifest) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             manifest.created_at.time_since_epoch())
      .count();
}

std::string KindOf(const Manifest& manifest) { return manifest.has_anchor() ? "anchor" : "patch"; }

void BindManifest(nb::module_& module) {
  nb::class_<Manifest>(module, "Manifest", "A log entry (docs/board.md). Frozen.")
      .def_ro("run", &Manifest::run)
      .def_ro("version", &Manifest::version)
      .def_prop_ro("parent",
                   [](const Manifest& self) -> std::optional<VersionNumber> {
                     if (self.parent == board::kNoVersion) return std::nullopt;
                     return self.parent;
                   })
      .def_ro("step", &Manifest::step)
      .def_ro("view", &Manifest::view)
      .def_prop_ro("kind", &KindOf, "\"anchor\" if it has a whole checkpoint, else \"patch\".")
      .def_prop_ro("digest", [](const Manifest& self) { return self.digest.Hex(); })
      .def_ro("tensors", &Manifest::tensors)
      .def_ro("elements", &Manifest::elements)
      .def_ro("changed", &Manifest::changed)
      .def_prop_ro("payload_bytes", &Manifest::payload_bytes)
      .def_ro("checkpoint_bytes", &Manifest::checkpoint_bytes)
      .def_prop_ro("created_ms", &CreatedMs, "Since the Unix epoch.")
      .def_ro("meta", &Manifest::meta);
}

}  // namespace

std::unique_ptr<OpenBoard> OpenBoard::At(const BoardPlace& place, std::stop_source stop) {
  store::StoreOptions options = place.store;
  options.stop = stop.get_token();
  return std::unique_ptr<OpenBoard>(new OpenBoard{
      std::move(stop), board::Board::Open(store::OpenStore(place.url, options), ReadTrust(place))});
}

std::shared_ptr<OpenBoard> BoardHandle::Get() {
  std::stop_source stop;
  {
    const std::lock_guard lock(mutex_);
    if (open_) return open_;
    if (stop_.stop_requested()) stop_ = std::stop_source();
    stop = stop_;
  }
  std::shared_ptr<OpenBoard> opened = OpenBoard::At(place_, stop);
  const std::lock_guard lock(mutex_);
  if (!open_ && !stop.stop_requested()) open_ = opened;
  return opened;
}

void BoardHandle::Stop() {
  const std::lock_guard lock(mutex_);
  stop_.request_stop();
  open_.reset();
}

BoardHandle& HandleOf(nb::handle board) { return nb::cast<PyBoard&>(board).handle(); }

void BindBoard(nb::module_& module) {
  BindManifest(module);
  nb::class_<PyBoard>(module, "Board", "A board. Thread-safe.")
      .def(nb::new_(&NewBoard), nb::arg("url"), nb::kw_only(), nb::arg("create") = false,
           nb::arg("s3_endpoint") = "", nb::arg("s3_region") = "",
           nb::arg("s3_virtual_host") = nb::none(), nb::arg("ca_file") = "",
           nb::arg("token_file") = "", nb::arg("deadline_s") = 120.0,
           nb::arg("trust") = std::vector<std::string>(), nb::arg("sign_key") = "")
      .def_prop_ro("url", [](const PyBoard& self) { return self.handle().place().url; })
      .def_prop_ro("uuid", &PyBoard::Uuid)
      .def("runs", &PyBoard::Runs)
      .def("log", &PyBoard::Log, nb::arg("run"), nb::arg("after"))
      .def("head", &PyBoard::Head, nb::arg("run"))
      .def("read", &PyBoard::Read, nb::arg("run"), nb::arg("version"));
}

}  // namespace isthmus::python
