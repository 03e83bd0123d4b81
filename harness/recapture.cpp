// The program: reads the command line, lets the verb act, and ends with one line and an exit code whatever happens.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include "harness/commands/commands.h"
#include "harness/judge/suggest.h"
#include "harness/run/environment.h"
#include "harness/run/places.h"
#include "harness/run/process.h"

namespace recapture {
namespace {

constexpr const char* kExitCodes = R"(Exit codes:
  0    as expected                      5    newly fixed: a documented failure did not occur
  1    behaviour changed                6    inconclusive: could not judge, stale, cut short
  2    wrong usage, unknown name or     7    infrastructure: no GPU where one was demanded, a GPU that does
       malformed input                       not answer, no LibTorch, disk full, no permission
  4    nothing ran                      130  interrupted
A case run by hand whose requirements are missing exits with 77.)";

constexpr const char* kVersion = "1.0";  // CMakeLists.txt has it too, and a test compares.

// "recapture 1.0 (cb4c5e7)": the revision of the tree that this program belongs to.
std::string version(const std::string& root) {
  std::string revision = "unknown";
  try {
    revision = revision_of(Places::find(root).root);
  } catch (const Stop&) {  // No tree: nobody knows.
  }
  return fmt::format("recapture {} ({})\n", kVersion, revision);
}

// The word that must be a verb: the first that is no option and no option's value. "" if there is none.
std::string verb_in(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--root") {
      ++i;
    } else if (word.empty() || word.front() != '-') {
      return word;
    }
  }
  return "";
}

void require_verb(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(verb->get_name());
  }
  if (std::find(known.begin(), known.end(), word) == known.end()) {
    throw Stop(Exit::Usage, no_such("verb", word, known, "--help says what there is"));
  }
}

// help is --help for those who try it as a verb.
Verb help_verb(CLI::App& app) {
  const auto verb = std::make_shared<std::string>();
  auto* command = app.add_subcommand("help", "What there is, or what a verb takes");
  command->add_option("verb", *verb, "A verb");
  return {command, [verb, &app] {
            if (!verb->empty()) require_verb(app, *verb);
            app.clear();  // Without a verb on its command line the application speaks for itself.
            fmt::print("{}", verb->empty() ? app.help() : app.get_subcommand(*verb)->help(app.get_name()));
            return Exit::AsExpected;
          }};
}

// A reader that has seen enough, as `head`, is no error of ours. What a run writes there is not its result, but it
// ends the run, and that must not look like success.
bool is_quiet(int error, const std::string& verb) { return error == EPIPE && verb != "run"; }

Exit command_line(int argc, char** argv) {
  CLI::App app("Recapture: the documented ways in which CUDA graphs fail under PyTorch, reproduced and kept on record.",
               "recapture");
  app.footer(kExitCodes);
  app.fallthrough();
  std::string root;
  app.add_option("--root", root, "Recapture's own tree (default: found from where this program lies)");
  bool asks_version = false;
  app.add_flag("--version", asks_version, "The version, and the revision of the tree");
  const Verb verbs[] = {list_verb(app, root), show_verb(app, root),      run_verb(app, root),  merge_verb(app),
                        tables_verb(app),     catalogue_verb(app, root), test_verb(app, root), help_verb(app)};
  if (const std::string word = verb_in(argc, argv); !word.empty()) require_verb(app, word);
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    app.exit(help);
    return Exit::AsExpected;
  } catch (const CLI::ParseError& e) {
    throw Stop(Exit::Usage, std::string(e.what()) + "; --help says what there is");
  }
  if (asks_version) {
    fmt::print("{}", version(root));
    return Exit::AsExpected;
  }
  for (const Verb& verb : verbs) {
    if (verb.command->parsed()) return verb.act();
  }
  throw Stop(Exit::Usage, "no verb; --help says what there is");
}

}  // namespace
}  // namespace recapture

int main(int argc, char** argv) {
  using recapture::Exit;
  recapture::own_the_processes();
  const std::string verb = recapture::verb_in(argc, argv);
  try {
    const Exit code = recapture::command_line(argc, argv);
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "standard output");
    return static_cast<int>(code);
  } catch (const recapture::Stop& stop) {
    std::fflush(stdout);
    fmt::print(stderr, "recapture: {}\n", stop.what());
    return static_cast<int>(stop.code);
  } catch (const std::system_error& e) {
    if (recapture::is_quiet(e.code().value(), verb)) return static_cast<int>(Exit::AsExpected);
    fmt::print(stderr, "recapture: {}\n", e.what());
    return static_cast<int>(Exit::Infrastructure);
  } catch (const std::exception& e) {
    std::fflush(stdout);
    fmt::print(stderr, "recapture: {}; please report this line\n", e.what());
    return static_cast<int>(Exit::Infrastructure);
  }
}
