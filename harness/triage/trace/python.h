// Replaces fixtures/python/python.h when a case is written as a Python program instead of run: every Python program of
// a test with its inputs, every call of Python's C interface and of NVRTC between them, and the expectations. It needs
// no Python, torch or GPU.
#pragma once
#include <gtest/gtest.h>
#include <sys/types.h>

#include <map>
#include <string>

struct _object;
typedef _object PyObject;

namespace recapture {

struct PythonApi {
  PyObject* PyBytes_FromStringAndSize(const char*, ssize_t) const;
  char* PyBytes_AsString(PyObject*) const;
  PyObject* PyByteArray_FromStringAndSize(const char*, ssize_t) const;
  char* PyByteArray_AsString(PyObject*) const;
};

using Variables = std::map<std::string, std::string>;
std::string site_packages();
std::string python_version();

class PythonTest : public ::testing::Test {
 protected:
  std::string python(const std::string& program, const Variables& given = {});
  std::string python_in_child(const std::string& program, const Variables& given = {},
                              const Variables& environment = {});
  const PythonApi& api();
};
class GpuPythonTest : public PythonTest {};

}  // namespace recapture
