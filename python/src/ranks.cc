// Publishing together with other processes (docs/ranks.md).
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "bind.h"
#include "isthmus/base/digest.h"
#include "isthmus/publish/baseline_place.h"
#include "isthmus/ranks/rank_publisher.h"
#include "session.h"

namespace isthmus::python {
namespace {

namespace nb = nanobind;
using ranks::RankPlace;
using ranks::RankPublisher;
using ranks::RankPublishOptions;
using ranks::RankPublishResult;

// Name, dtype as safetensors says it, shape of the whole tensor, first row, rows, address of these.
using HeldPlace = std::tuple<std::string, std::string, std::vector<uint64_t>, uint64_t, uint64_t,
                             uintptr_t, size_t>;

std::vector<ranks::ShareTensor> ShareOf(const std::vector<HeldPlace>& places) {
  std::vector<ranks::ShareTensor> share;
  for (const auto& [name, dtype_name, shape, first_row, rows, address, bytes] : places) {
    const auto dtype = tensor::ParseDtype(dtype_name);
    if (!dtype) Throw(ErrorCode::kInvalid, "publish tensor {}: unknown dtype {}", name, dtype_name);
    tensor::Shape held = shape;
    if (!held.empty()) held.front() = rows;
    if (tensor::BytesOf(name, *dtype, held) != bytes) {
      Throw(ErrorCode::kInvalid, "publish tensor {}: {} bytes for {} rows", name, bytes, rows);
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): Python knows addresses as numbers
    const auto* at = reinterpret_cast<const std::byte*>(address);
    share.push_back({{name, *dtype, shape, first_row, rows}, {at, bytes}});
  }
  return share;
}

std::vector<Xxh128Digest> DigestsOf(const std::vector<ranks::ShareTensor>& share,
                                    ThreadPool& pool) {
  std::vector<Xxh128Digest> digests(share.size());
  pool.ParallelFor(share.size(), [&](size_t i) { digests[i] = Xxh3_128(share[i].bytes); });
  return digests;
}

void CheckStill(const std::vector<ranks::ShareTensor>& share,
                const std::vector<Xxh128Digest>& digests, ThreadPool& pool) {
  const std::vector<Xxh128Digest> now = DigestsOf(share, pool);
  for (size_t i = 0; i < share.size(); ++i) {
    if (now[i] == digests[i]) continue;
    Throw(ErrorCode::kConflict, "publish tensor {}: it changed while it was read",
          share[i].held.name);
  }
}

// Python's RankPublisher.
class PyRankPublisher : public BaselineSession<RankPublisher> {
 public:
  PyRankPublisher(BoardPlace board_place, const std::string& run, RankPlace place,
                  const std::string& baseline, size_t threads)
      : BaselineSession(
            std::move(board_place), threads, baseline,
            [run, place](const board::Board& board) {
              return publish::DefaultBaseline(board, run, place.rank);
            },
            [run, place](board::Board& board, const fs::path& at, Machine& machine) {
              return std::make_unique<RankPublisher>(board, run, place, at, machine.pool(),
                                                     machine.progress());
            }) {}

  RankPublishResult Publish(const std::vector<HeldPlace>& places, const RankPublishOptions& options,
                            bool check) const {
    const std::vector<ranks::ShareTensor> share = ShareOf(places);
    Session<RankPublisher>& held = session();
    return held.Call<RankPublishResult>([&](RankPublisher& publisher) {
      if (!check) return publisher.Publish(share, options);
      const std::vector<Xxh128Digest> digests = DigestsOf(share, held.pool());
      return publisher.Publish(share, options, [&] { CheckStill(share, digests, held.pool()); });
    });
  }
};

std::unique_ptr<PyRankPublisher> NewRankPublisher(nb::handle board, const std::string& run,
                                                  uint32_t rank, uint32_t count,
                                                  const std::string& baseline, size_t threads) {
  auto publisher = std::make_unique<PyRankPublisher>(HandleOf(board).place(), run,
                                                     RankPlace{rank, count}, baseline, threads);
  publisher->Open();
  return publisher;
}

RankPublishResult Publish(const PyRankPublisher& self, const std::vector<HeldPlace>& places,
                          int64_t step, std::map<std::string, std::string> meta, double deadline_s,
                          bool check) {
  RankPublishOptions options;
  options.step = step;
  options.meta = std::move(meta);
  options.deadline = std::chrono::milliseconds(static_cast<int64_t>(deadline_s * 1000));
  return self.Publish(places, options, check);
}

}  // namespace

void BindRanks(nb::module_& module) {
  nb::class_<RankPublishResult>(module, "RankPublishResult", "What one rank did.")
      .def_ro("manifest", &RankPublishResult::manifest)
      .def_ro("baseline_bytes", &RankPublishResult::baseline_bytes)
      .def_ro("notes", &RankPublishResult::notes);
  nb::class_<PyRankPublisher>(module, "RankPublisher", "Publishes versions with other processes.")
      .def(nb::new_(&NewRankPublisher), nb::arg("board"), nb::arg("run"), nb::arg("rank"),
           nb::arg("ranks"), nb::arg("baseline"), nb::arg("threads"))
      .def("publish", &Publish, nb::arg("tensors"), nb::arg("step"), nb::arg("meta"),
           nb::arg("deadline_s"), nb::arg("check"))
      .def_prop_ro("baseline", &PyRankPublisher::baseline)
      .def("close", &PyRankPublisher::Close);
}

}  // namespace isthmus::python
