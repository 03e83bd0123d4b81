// The programs in plain PyTorch beside the cases: cases/<family>/<failure>.py. docs/contributing.md has their form.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace recapture {

struct CaseProgram {
  std::string family, path;
  std::string code;                    // The hash of what runs.
  std::vector<std::string> functions;  // "fails", "fix_read_after_replay": in the file's order.
};

// By the id of the case: those in `only`, or all if it is empty.
std::map<std::string, CaseProgram> programs_in_tree(const std::string& root, const std::set<std::string>& only = {});

// The functions at the beginning of a line, without main().
std::vector<std::string> functions_in(std::string_view source);

// The test that runs a function: "PythonReproduces", "PythonFixReadAfterReplay"; "" if it is no function of the form.
std::string test_of_function(std::string_view function);

// The names of its tests, in the file's order.
std::vector<std::string> tests_of(const CaseProgram& program);

// The hash of a program's code. Comments, blank lines, the docstring and main() do not count: main() is the same in
// all.
std::string program_hash(std::string_view source);

// Without comments; what looks like one in a string stays.
std::string without_comments(std::string_view source);

// One function from its `def` to its end; "" if it is not there.
std::string program_function(const std::string& source, const std::string& function);

}  // namespace recapture
