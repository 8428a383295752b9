#include "isthmus/replica/replica.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "board.h"
#include "call.h"

namespace isthmus::python {
namespace {

namespace nb = nanobind;
using board::VersionNumber;

struct Pulled {
  board::Manifest manifest;
  replica::PullResult result;
};

// A replica with the threads that it works on.
class ReplicaSession {
 public:
  explicit ReplicaSession(size_t threads) : machine_(threads) {}

  // Apart from the constructor, because it takes long.
  void Open(const std::string& directory) {
    machine_.Call<bool>([&] {
      replica_ =
          std::make_unique<replica::Replica>(directory, machine_.pool(), machine_.progress());
      return true;
    });
  }

  Pulled Pull(BoardHandle& handle, const std::string& run, std::optional<VersionNumber> version) {
    return machine_.Call<Pulled>(
        [&] {
          const std::shared_ptr<OpenBoard> open = handle.Get();
          return PullFrom(open->board, run, version);
        },
        [&] { handle.Stop(); });
  }

  void Verify() {
    machine_.Call<bool>([this] {
      replica_->Verify();
      return true;
    });
  }

  const replica::Replica& replica() const { return *replica_; }

 private:
  Pulled PullFrom(const board::Board& board, const std::string& run,
                  std::optional<VersionNumber> version) {
    const VersionNumber target = version ? *version : board.Newest(run);
    if (target == board::kNoVersion) {
      Throw(ErrorCode::kNotFound, "pull run {} of board {}: it has no version", run, board.uuid());
    }
    replica::PullResult result = replica_->Pull(board, run, target);
    std::optional<board::Manifest> manifest = board.Read(run, target);
    if (!manifest) {
      Throw(ErrorCode::kNotFound, "read version {} of run {}: it is gone", target, run);
    }
    return {*std::move(manifest), std::move(result)};
  }

  Machine machine_;
  std::unique_ptr<replica::Replica> replica_;
};

// Python's Replica.
class PyReplica {
 public:
  explicit PyReplica(size_t threads) : session_(std::make_unique<ReplicaSession>(threads)) {}

  ReplicaSession& session() const { return session_.Get(); }
  void Close() { session_.Close(); }
  const std::optional<replica::ReplicaState>& state() const { return session().replica().state(); }

 private:
  Owned<ReplicaSession> session_;
};

std::unique_ptr<PyReplica> NewReplica(const std::string& directory, size_t threads) {
  auto replica = std::make_unique<PyReplica>(threads);
  replica->session().Open(directory);
  return replica;
}

}  // namespace

void BindReplica(nb::module_& module) {
  nb::class_<Pulled>(module, "Pulled", "What a pull did.")
      .def_ro("manifest", &Pulled::manifest)
      .def_prop_ro("chain", [](const Pulled& self) { return self.result.chain; })
      .def_prop_ro("fetched_bytes", [](const Pulled& self) { return self.result.fetched_bytes; })
      .def_prop_ro("notes", [](const Pulled& self) { return self.result.notes; });
  nb::class_<PyReplica>(module, "Replica", "A local checkpoint that follows a run.")
      .def(nb::new_(&NewReplica), nb::arg("directory"), nb::arg("threads"))
      .def(
          "pull",
          [](PyReplica& self, nb::handle board, const std::string& run,
             std::optional<VersionNumber> version) {
            return self.session().Pull(HandleOf(board), run, version);
          },
          nb::arg("board"), nb::arg("run"), nb::arg("version") = nb::none())
      .def("verify", [](PyReplica& self) { self.session().Verify(); })
      .def("close", &PyReplica::Close)
      .def_prop_ro("directory",
                   [](PyReplica& self) { return self.session().replica().directory().string(); })
      .def_prop_ro("version",
                   [](PyReplica& self) -> std::optional<VersionNumber> {
                     if (!self.state()) return std::nullopt;
                     return self.state()->version;
                   })
      .def_prop_ro("run",
                   [](PyReplica& self) -> std::optional<std::string> {
                     if (!self.state()) return std::nullopt;
                     return self.state()->run;
                   })
      .def_prop_ro("digest", [](PyReplica& self) -> std::optional<std::string> {
        if (!self.state()) return std::nullopt;
        return self.state()->digest.Hex();
      });
}

}  // namespace isthmus::python
