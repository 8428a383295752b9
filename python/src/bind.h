// The areas of the module, each in a file of its own.
#ifndef ISTHMUS_PYTHON_SRC_BIND_H_
#define ISTHMUS_PYTHON_SRC_BIND_H_

#include <nanobind/nanobind.h>

namespace isthmus::python {

void BindErrors(nanobind::module_& module);     // isthmus::Error to the classes of isthmus.errors
void BindBoard(nanobind::module_& module);      // Board, Manifest
void BindReplica(nanobind::module_& module);    // Replica
void BindFiles(nanobind::module_& module);      // diff, apply, verify, inspect
void BindMemory(nanobind::module_& module);     // HostMemory, DlpackView
void BindPublisher(nanobind::module_& module);  // Publisher, layouts

}  // namespace isthmus::python

#endif  // ISTHMUS_PYTHON_SRC_BIND_H_
