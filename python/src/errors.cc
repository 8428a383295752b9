#include <nanobind/nanobind.h>

#include <exception>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "bind.h"
#include "isthmus/base/error.h"

namespace isthmus::python {
namespace {

namespace nb = nanobind;

// The class is looked up in the one table, isthmus.errors.BY_CODE.
void Raise(ErrorCode code, std::string_view message) {
  const std::string_view name = ErrorCodeName(code);
  const nb::object type =
      nb::module_::import_("isthmus.errors").attr("BY_CODE")[nb::str(name.data(), name.size())];
  // A path in a message may be any bytes.
  const nb::object text = nb::steal(PyUnicode_DecodeUTF8(
      message.data(), static_cast<Py_ssize_t>(message.size()), "backslashreplace"));
  PyErr_SetObject(type.ptr(), text.ptr());
}

void Translate(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    Raise(error.code(), error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    Raise(ErrorCode::kUnavailable, error.what());
  } catch (const std::system_error& error) {
    Raise(ErrorCode::kUnavailable, error.what());
  }
}

}  // namespace

void BindErrors(nb::module_& /*module*/) { nb::register_exception_translator(&Translate); }

}  // namespace isthmus::python
