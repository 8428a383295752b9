#include "isthmus/publish/publisher.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "board.h"
#include "isthmus/publish/baseline_place.h"
#include "isthmus/tensor/checkpoint_write.h"
#include "session.h"

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

PublishOptions OptionsOf(std::optional<int64_t> step, std::map<std::string, std::string> meta,
                         bool check) {
  PublishOptions options;
  options.step = step;
  options.meta = std::move(meta);
  options.check_memory = check;
  return options;
}

// Python's Publisher.
class PyPublisher : public BaselineSession<publish::Publisher> {
 public:
  PyPublisher(BoardPlace place, const std::string& run, const std::string& baseline, size_t threads)
      : BaselineSession(
            std::move(place), threads, baseline,
            [run](const board::Board& board) { return publish::DefaultBaseline(board, run); },
            [run](board::Board& board, const fs::path& at, Machine& machine) {
              return std::make_unique<publish::Publisher>(board, run, at, machine.pool(),
                                                          machine.progress());
            }) {}

  PublishResult Publish(const std::string& layout, const std::vector<TensorPlace>& places,
                        const PublishOptions& options) const {
    return session().Call<PublishResult>([&](publish::Publisher& publisher) {
      return publisher.Publish(Checkpoint::OpenWithData(layout, AtPlaces(places)), options);
    });
  }
  PublishResult PublishCheckpoint(const std::string& directory,
                                  const PublishOptions& options) const {
    return session().Call<PublishResult>([&](publish::Publisher& publisher) {
      return publisher.Publish(fs::path(directory), options);
    });
  }
};

std::unique_ptr<PyPublisher> NewPublisher(nb::handle board, const std::string& run,
                                          const std::string& baseline, size_t threads) {
  auto publisher = std::make_unique<PyPublisher>(HandleOf(board).place(), run, baseline, threads);
  publisher->Open();
  return publisher;
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
            return self.Publish(layout, tensors, OptionsOf(step, std::move(meta), check));
          },
          nb::arg("layout"), nb::arg("tensors"), nb::arg("step").none(), nb::arg("meta"),
          nb::arg("check"))
      .def(
          "publish_checkpoint",
          [](PyPublisher& self, const std::string& directory, std::optional<int64_t> step,
             std::map<std::string, std::string> meta) {
            return self.PublishCheckpoint(directory, OptionsOf(step, std::move(meta), false));
          },
          nb::arg("directory"), nb::arg("step").none(), nb::arg("meta"))
      .def_prop_ro("baseline", &PyPublisher::baseline)
      .def("close", &PyPublisher::Close);
  module.def("tensors_of", &TensorsOf, nb::arg("directory"),
             "(name, dtype, shape) of every tensor of a checkpoint, by name.");
  module.def("write_layout", &WriteLayout, nb::arg("directory"), nb::arg("tensors"),
             "Shards with these tensors, all zeros, without taking room.");
}

}  // namespace isthmus::python
