// recapture check: runs the Python package, in the Python that has PyTorch.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/commands/commands.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

struct CheckOptions {
  std::string python, function, inputs, count, warm_up;
  bool json = false, later = false;
};

// The Python program. It removes the current folder from the path, where the package may be shadowed. Its first
// argument is the folder of this tree's package, or empty.
constexpr char kStart[] = R"(import sys
folder = sys.argv.pop(1)
sys.path[:] = ([folder] if folder else []) + [place for place in sys.path if place]
try:
    from recapture._check import main
except Exception as error:
    print("recapture check: {} cannot import recapture's package: {}; install the wheel there, or --python names "
          "another Python".format(sys.executable, error), file=sys.stderr)
    sys.exit(7)
sys.exit(main(sys.argv[1:]))
)";

// Throws ExitError(Usage) with what to write if it is no MODULE:FUNCTION.
void require_function(const std::string& word) {
  const fs::path file = word.substr(0, word.find(':'));
  if (file.extension() != ".py") {
    if (word.find(':') != std::string::npos) return;  // The package reports the rest.
    throw ExitError(Exit::Usage, fmt::format("check takes MODULE:FUNCTION, such as {}:step, and not '{}'", word, word));
  }
  const std::string function = word.find(':') == std::string::npos ? "step" : word.substr(word.find(':') + 1);
  throw ExitError(Exit::Usage,
                  fmt::format("check takes a module and not a file; write {}:{}", file.stem().string(), function));
}

Exit check_function(const run::Layout& places, const CheckOptions& options) {
  require_function(options.function);
  const std::string python = options.python.empty() ? default_python() : options.python;
  const std::string package = places.home + "/python";
  std::vector<std::string> words = {python, "-c", kStart, fs::exists(package + "/recapture/_check") ? package : ""};
  for (const auto& [name, value] : {std::pair("--inputs", &options.inputs), std::pair("--count", &options.count),
                                    std::pair("--warm-up", &options.warm_up)}) {
    if (!value->empty()) words.push_back(fmt::format("{}={}", name, *value));
  }
  if (options.later) words.emplace_back("--later");
  if (options.json) words.emplace_back("--json");
  words.insert(words.end(), {"--", options.function});
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  throw ExitError(Exit::Infrastructure, fmt::format("cannot start '{}': {}; --python names the Python that has PyTorch",
                                                    python, std::strerror(errno)));
}

}  // namespace

std::string default_python() {
  std::error_code error;
  const fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path() / "python3";
  return fs::exists(beside, error) ? beside.string() : "python3";
}

Verb check_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<CheckOptions>();
  auto* command = app.add_subcommand("check", "Report where a CUDA graph of a function computes something else");
  command->add_option("function", options->function, "MODULE:FUNCTION in Python, such as train:step")->required();
  command->add_option("--inputs", options->inputs,
                      "A function of the module that gives the i-th inputs (default: make_inputs, if it is there)");
  command->add_option("--count", options->count, "Sets of inputs (default: 3)")->check(CLI::NonNegativeNumber);
  command->add_option("--warm-up", options->warm_up, "Calls before anything is compared (default: 3)")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--later", options->later,
                    "Also replay after other work of a program, such as another graph or a cleared cache");
  command->add_flag("--json", options->json, "Print the report as JSON");
  command->add_option("--python", options->python,
                      "The Python that has PyTorch (default: the one beside this program, or python3)");
  command->footer(
      "Exit codes: 0 nothing was found, 1 something was, 2 wrong usage, or the function fails without a graph too,\n"
      "7 no GPU, no PyTorch, or an error in check itself.");
  return {command,
          [options, &root] { return check_function(run::Layout::find(root), *options); },
          Signals::Untouched,
          {{"recapture check train:step", "the function step of train.py, with inputs of its make_inputs"},
           {"recapture check --python venv/bin/python train:step", "with the PyTorch of another environment"}}};
}

}  // namespace recapture::commands
