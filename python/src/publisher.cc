#include "isthmus/publish/publisher.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "board.h"
#include "call.h"
#include "isthmus/publish/baseline_place.h"
#include "isthmus/tensor/checkpoint_write.h"

namespace isthmus::python {
namespace {

namespace nb = nanobind;
using publish::PublishOptions;
using publish::PublishResult;
using tensor::Checkpoint;

// As huggingface_hub splits models.
constexpr uint64_t kShardBytes = 5'000'000'000;

// Name, address, bytes. Whoever calls keeps the memory alive and unchanged during the call.
using TensorPlace = std::tuple<std::string, uintptr_t, size_t>;
// Name, dtype as safetensors says it, shape.
using TensorKind = std::tuple<std::string, std::string, std::vector<uint64_t>>;

Checkpoint::MemoryTensors AtPlaces(const std::vector<TensorPlace>& places) {
  Checkpoint::MemoryTensors tensors;
  for (const auto& [name, address, bytes] : places) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): Python knows addresses as numbers
    tensors[name] = {reinterpret_cast<const std::byte*>(address), bytes};
  }
  return tensors;
}

// A publisher that goes on after a call that was stopped: it opens its session anew, and so finds
// out what the log says.
class PublisherSession {
 public:
  PublisherSession(BoardPlace place, std::string run, std::string baseline, size_t threads)
      : board_(std::move(place)),
        run_(std::move(run)),
        baseline_(std::move(baseline)),
        machine_(threads) {}

  void Open() {
    Call<bool>([this] {
      Publisher();
      return true;
    });
  }

  PublishResult Publish(const std::string& layout, const std::vector<TensorPlace>& places,
                        const PublishOptions& options) {
    return Call<PublishResult>([&] {
      return Publisher().Publish(Checkpoint::OpenWithData(layout, AtPlaces(places)), options);
    });
  }

  PublishResult PublishCheckpoint(const std::string& directory, const PublishOptions& options) {
    return Call<PublishResult>([&] { return Publisher().Publish(fs::path(directory), options); });
  }

  const std::string& baseline() const { return baseline_; }

 private:
  publish::Publisher& Publisher() {
    if (publisher_) return *publisher_;
    open_ = board_.Get();
    if (baseline_.empty()) baseline_ = publish::DefaultBaseline(open_->board, run_).string();
    return publisher_.emplace(open_->board, run_, baseline_, machine_.pool(), machine_.progress());
  }

  template <typename Result>
  Result Call(const std::function<Result()>& work) {
    bool stopped = false;
    const auto stop = [&] {
      stopped = true;
      board_.Stop();
    };
    try {
      return machine_.Call<Result>(work, stop);
    } catch (...) {
      if (stopped) publisher_.reset();
      throw;
    }
  }

  BoardHandle board_;
  std::string run_;
  std::string baseline_;
  Machine machine_;
  std::shared_ptr<OpenBoard> open_;
  std::optional<publish::Publisher> publisher_;
};

PublishOptions OptionsOf(std::optional<int64_t> step, std::map<std::string, std::string> meta,
                         bool check) {
  PublishOptions options;
  options.step = step;
  options.meta = std::move(meta);
  options.check_memory = check;
  return options;
}

// Python's Publisher.
class PyPublisher {
 public:
  explicit PyPublisher(std::unique_ptr<PublisherSession> session) : session_(std::move(session)) {}

  PublisherSession& session() const { return session_.Get(); }
  void Close() { session_.Close(); }

 private:
  Owned<PublisherSession> session_;
};

std::unique_ptr<PyPublisher> NewPublisher(nb::handle board, const std::string& run,
                                          const std::string& baseline, size_t threads) {
  auto session =
      std::make_unique<PublisherSession>(HandleOf(board).place(), run, baseline, threads);
  session->Open();
  return std::make_unique<PyPublisher>(std::move(session));
}

std::vector<TensorKind> TensorsOf(const std::string& directory) {
  const nb::gil_scoped_release release;
  const Checkpoint checkpoint = Checkpoint::Open(directory);
  std::vector<TensorKind> tensors;
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    tensors.emplace_back(tensor.info.name, std::string(tensor::DtypeName(tensor.info.dtype)),
                         tensor.info.shape);
  }
  return tensors;
}

void WriteLayout(const std::string& directory, const std::vector<TensorKind>& tensors) {
  std::vector<tensor::TensorInfo> infos;
  for (const auto& [name, dtype_name, shape] : tensors) {
    const auto dtype = tensor::ParseDtype(dtype_name);
    if (!dtype) Throw(ErrorCode::kInvalid, "lay out tensor {}: unknown dtype {}", name, dtype_name);
    infos.push_back({name, *dtype, shape, 0, 0});
  }
  const nb::gil_scoped_release release;
  tensor::WriteEmptyCheckpoint(std::move(infos), kShardBytes, directory);
}

}  // namespace

void BindPublisher(nb::module_& module) {
  nb::class_<PublishResult>(module, "PublishResult", "What a publish did.")
      .def_ro("manifest", &PublishResult::manifest)
      .def_ro("anchor_reason", &PublishResult::anchor_reason)
      .def_ro("notes", &PublishResult::notes);
  nb::class_<PyPublisher>(module, "Publisher", "Publishes versions of a run, one at a time.")
      .def(nb::new_(&NewPublisher), nb::arg("board"), nb::arg("run"), nb::arg("baseline"),
           nb::arg("threads"))
      .def(
          "publish",
          [](PyPublisher& self, const std::string& layout, const std::vector<TensorPlace>& tensors,
             std::optional<int64_t> step, std::map<std::string, std::string> meta, bool check) {
            return self.session().Publish(layout, tensors, OptionsOf(step, std::move(meta), check));
          },
          nb::arg("layout"), nb::arg("tensors"), nb::arg("step").none(), nb::arg("meta"),
          nb::arg("check"))
      .def(
          "publish_checkpoint",
          [](PyPublisher& self, const std::string& directory, std::optional<int64_t> step,
             std::map<std::string, std::string> meta) {
            return self.session().PublishCheckpoint(directory,
                                                    OptionsOf(step, std::move(meta), false));
          },
          nb::arg("directory"), nb::arg("step").none(), nb::arg("meta"))
      .def_prop_ro("baseline", [](const PyPublisher& self) { return self.session().baseline(); })
      .def("close", &PyPublisher::Close);
  module.def("tensors_of", &TensorsOf, nb::arg("directory"),
             "(name, dtype, shape) of every tensor of a checkpoint, by name.");
  module.def("write_layout", &WriteLayout, nb::arg("directory"), nb::arg("tensors"),
             "Shards with these tensors, all zeros, without taking room.");
}

}  // namespace isthmus::python
