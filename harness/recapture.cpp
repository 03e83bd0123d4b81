// The program: reads the command line, lets the verb act, and ends with one line and an exit code whatever happens.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstring>
#include <iterator>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "harness/commands/commands.h"
#include "harness/commands/names.h"
#include "harness/record/output.h"
#include "harness/run/environment.h"
#include "harness/run/places.h"
#include "harness/run/process.h"

namespace recapture {
namespace {

std::string exit_codes() {
  std::string text = "Exit codes:\n";
  for (const ExitMeaning& row : kExitMeanings)
    text += fmt::format("  {:<4} {}\n", static_cast<int>(row.code), row.meaning);
  return text;
}

constexpr const char* kVersion = "1.0";  // CMakeLists.txt has it too, and a test compares.

// "recapture 1.0 (cb4c5e7)": the revision of the tree that this program belongs to.
std::string version(const std::string& root) {
  std::string revision = "unknown";
  try {
    revision = revision_of(Places::find(root).root);
  } catch (const Stop&) {  // No tree, no revision.
  }
  return fmt::format("recapture {} ({})\n", kVersion, revision);
}

// An empty value counts as none to the library, and to us as a slip: a script's variable that is not set.
void require_values(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    if (word.empty()) {
      const bool is_of_option = i > 0 && words[i - 1].rfind('-', 0) == 0;
      throw Stop(Exit::Usage, fmt::format("{} is empty", is_of_option ? words[i - 1] : "an argument"));
    }
    if (word.rfind("--", 0) == 0 && word.back() == '=') {
      throw Stop(Exit::Usage, fmt::format("{} has no value", word));
    }
  }
}

std::vector<Verb> add_verbs(CLI::App& app, const std::string& root) {
  std::vector<Verb> verbs = {list_verb(app, root),    show_verb(app, root),   run_verb(app, root),
                             explain_verb(app, root), blame_verb(app, root),  compare_verb(app, root),
                             gate_verb(app, root),    bisect_verb(app, root), history_verb(app, root),
                             page_verb(app, root),    triage_verb(app, root), help_verb(app)};
  for (const Verb& verb : verbs) verb.command->group("Verbs");
  verbs.push_back(baseline_verb(app, root));
  CLI::App& nightly = *app.add_subcommand("nightly", "Plan, collect and compare a night: plan, collect, diff");
  CLI::App& dev = *app.add_subcommand("dev", "Maintain this tree: merge, tables, catalogue, test, propose");
  for (CLI::App* command : {verbs.back().command, &nightly, &dev}) command->group("Verbs for maintainers");
  const Verb below[] = {nightly_plan_verb(nightly, root), nightly_collect_verb(nightly, root),
                        nightly_diff_verb(nightly, root), dev_merge_verb(dev),
                        dev_tables_verb(dev, root),       dev_catalogue_verb(dev, root),
                        dev_test_verb(dev, root),         dev_propose_verb(dev, root)};
  for (const Verb& verb : below) verb.command->group("Verbs");
  verbs.insert(verbs.end(), std::begin(below), std::end(below));
  for (CLI::App* command : {&app, &nightly, &dev}) command->require_subcommand(0, 1);
  return verbs;
}

// What to do about a reader that leaves and a file that grows beyond its limit: from the start neither ends the
// program.
class OutputSignals {
 public:
  void take_over(Signals signals) {
    if (signals == Signals::Untouched) {
      std::signal(SIGPIPE, pipe_);
      std::signal(SIGXFSZ, size_);
    } else if (signals == Signals::Children) {
      own_the_processes();
      std::signal(SIGXFSZ, report);
    }
  }

 private:
  static void report(int) {}  // By write's error. What is ignored is so in each child too, and a handler is not.

  void (*pipe_)(int) = std::signal(SIGPIPE, SIG_IGN);
  void (*size_)(int) = std::signal(SIGXFSZ, report);
};

Exit command_line(std::vector<std::string> words, OutputSignals& signals) {
  CLI::App app("Recapture: the documented ways in which CUDA graphs fail under PyTorch, reproduced and kept on record.",
               "recapture");
  app.footer(exit_codes());
  app.fallthrough();
  std::string root;
  app.add_option("--root", root, "Recapture's own tree (default: found from the place of this program)");
  bool asks_version = false;
  app.add_flag("--version", asks_version, "Print the version, and the revision of the tree");
  require_values(words);
  const std::vector<Verb> verbs = add_verbs(app, root);
  if (const std::string note = replace_old_verb(words); !note.empty()) say_last_words(note);
  const std::vector<size_t> plain = plain_words(words);
  if (!plain.empty()) require_options(app, {words.begin(), words.begin() + static_cast<ptrdiff_t>(plain.front())});
  std::vector<std::string> names;
  for (const size_t at : plain) names.push_back(words[at]);
  const CLI::App& command = find_verb(app, names);
  const auto verb = std::find_if(verbs.begin(), verbs.end(), [&](const Verb& one) { return one.command == &command; });
  if (verb != verbs.end()) {
    signals.take_over(verb->signals);
    for (CLI::Option* option : verb->command->get_options()) {
      if (option->get_items_expected_max() == 0) option->disable_flag_override();  // --exec=7 means nothing.
    }
  }
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp& help) {
    app.exit(help);
    return Exit::AsExpected;
  } catch (const CLI::ParseError& e) {
    require_options(command, app.remaining());
    throw Stop(Exit::Usage, std::string(e.what()) + "; --help says what there is");
  }
  if (asks_version) {
    print("{}", version(root));
    return Exit::AsExpected;
  }
  if (verb != verbs.end()) return verb->act();
  if (&command != &app) refuse_group(command);
  throw Stop(Exit::Usage, "no verb; --help says what there is");
}

}  // namespace
}  // namespace recapture

int main(int argc, char** argv) {
  using recapture::Exit;
  recapture::open_standard_streams();
  recapture::OutputSignals signals;
  Exit code = Exit::Infrastructure;
  try {
    code = recapture::command_line({argv + 1, argv + argc}, signals);
  } catch (const recapture::Stop& stop) {
    recapture::say_last_words(stop.what());
    code = stop.code;
  } catch (const std::system_error& e) {
    recapture::say_last_words(e.what());
  } catch (const std::bad_alloc&) {
    recapture::say_last_words("out of memory");
  } catch (const std::exception& e) {
    recapture::say_last_words(std::string(e.what()) + "; please report this line");
  }
  if (const int error = recapture::output_error(); error != 0) {
    recapture::say_last_words(std::string("standard output: ") + std::strerror(error));
    code = Exit::Infrastructure;
  }
  return static_cast<int>(code);
}
