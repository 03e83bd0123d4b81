// In place of fixtures/python/python.h, where a case is not run but written down: every Python program that a test
// runs, with what it is given, every call of Python's C interface and of NVRTC between them, and what is expected of
// each. The result is a program in Python. No Python, torch or GPU is needed for that.
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
