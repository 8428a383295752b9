// isthmus._core: the library as the package isthmus uses it. Nothing here is for other callers:
// what is public is in python/isthmus.
#include "bind.h"

NB_MODULE(_core, module) {
  module.attr("__version__") = ISTHMUS_VERSION;
  isthmus::python::BindErrors(module);
  isthmus::python::BindBoard(module);
  isthmus::python::BindReplica(module);
  isthmus::python::BindFiles(module);
  isthmus::python::BindMemory(module);
  isthmus::python::BindPublisher(module);
}
