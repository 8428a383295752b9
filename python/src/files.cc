// diff, apply, verify and inspect: what needs no board.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <boost/json/serialize.hpp>

#include "bind.h"
#include "call.h"
#include "isthmus/replica/describe.h"
#include "isthmus/replica/diff_file.h"
#include "isthmus/replica/patch_file.h"
#include "isthmus/replica/verify.h"

namespace isthmus::python {
namespace {

namespace nb = nanobind;
using replica::DiffFileResult;
using replica::PatchFileResult;

DiffFileResult Diff(const std::string& old, const std::string& next, const std::string& patch,
                    const std::string& encoding, size_t threads) {
  Machine machine(threads);
  return machine.Call<DiffFileResult>([&] {
    return replica::DiffToFile(old, next, patch, codec::ParseEncoding(encoding), machine.pool(),
                               machine.progress());
  });
}

PatchFileResult Apply(const std::string& patch, const std::string& directory,
                      const std::optional<std::string>& out, size_t threads) {
  Machine machine(threads);
  return machine.Call<PatchFileResult>([&] {
    if (!out) {
      return replica::ApplyPatchInPlace(patch, directory, machine.pool(), machine.progress());
    }
    return replica::ApplyPatchTo(patch, directory, *out, machine.pool(), machine.progress());
  });
}

replica::Problems Verify(const std::string& directory, const std::optional<std::string>& against,
                         size_t threads) {
  Machine machine(threads);
  return machine.Call<replica::Problems>([&] {
    if (!against) {
      return replica::FindReplicaDamage(directory, machine.pool(), machine.progress());
    }
    return replica::FindDifferences(directory, *against, machine.pool(), machine.progress());
  });
}

std::string Inspect(const std::string& path, size_t threads) {
  Machine machine(threads);
  return machine.Call<std::string>([&] {
    try {
      return boost::json::serialize(
          replica::Describe(path, {}, machine.pool(), machine.progress()));
    } catch (const Error& error) {
      throw error.Annotated("inspect " + path);
    }
  });
}

}  // namespace

void BindFiles(nb::module_& module) {
  nb::class_<DiffFileResult>(module, "DiffResult", "What a diff found.")
      .def_prop_ro("base_digest",
                   [](const DiffFileResult& self) { return self.diff.base.Digest().Hex(); })
      .def_prop_ro("digest",
                   [](const DiffFileResult& self) { return self.diff.next.Digest().Hex(); })
      .def_prop_ro("elements", [](const DiffFileResult& self) { return self.diff.units; })
      .def_prop_ro("changed", [](const DiffFileResult& self) { return self.diff.changed; })
      .def_prop_ro("tensors_changed",
                   [](const DiffFileResult& self) { return self.diff.tensors_changed; })
      .def_prop_ro("encodings", [](const DiffFileResult& self) { return self.diff.encodings; })
      .def_ro("checkpoint_bytes", &DiffFileResult::checkpoint_bytes)
      .def_ro("patch_bytes", &DiffFileResult::patch_bytes);
  nb::class_<PatchFileResult>(module, "ApplyResult", "What an apply did.")
      .def_ro("tensors", &PatchFileResult::tensors)
      .def_ro("changed", &PatchFileResult::changed)
      .def_ro("verified", &PatchFileResult::verified)
      .def_ro("notes", &PatchFileResult::notes);
  module.def("diff", &Diff, nb::arg("old"), nb::arg("new"), nb::arg("patch"), nb::arg("encoding"),
             nb::arg("threads"));
  module.def("apply", &Apply, nb::arg("patch"), nb::arg("directory"), nb::arg("out").none(),
             nb::arg("threads"));
  module.def("verify", &Verify, nb::arg("directory"), nb::arg("against").none(),
             nb::arg("threads"));
  module.def("inspect", &Inspect, nb::arg("path"), nb::arg("threads"));
}

}  // namespace isthmus::python
