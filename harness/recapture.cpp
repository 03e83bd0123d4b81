// The program: parses the command line, runs the verb, and always ends with one line and an exit code.
#include <cxxabi.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <typeinfo>
#include <vector>

#include "harness/base/output.h"
#include "harness/base/reason.h"
#include "harness/commands/commands.h"
#include "harness/commands/names.h"
#include "harness/commands/version.h"
#include "harness/run/environment.h"
#include "harness/run/layout.h"
#include "harness/run/process.h"

namespace recapture {
namespace {

std::string exit_codes() {
  std::string text = "Exit codes:\n";
  for (const ExitMeaning& row : kExitMeanings)
    text += fmt::format("  {:<4} {}\n", static_cast<int>(row.code), row.meaning);
  return text;
}

// "recapture 1.1 (cb4c5e7), newest record 2026-11-27": with the revision of the program's tree, and the set of records
// if it is not the program's own.
std::string version(const std::string& root) {
  std::string revision = "unknown", newest = "none", set;
  try {
    const run::Layout places = run::Layout::find(root);
    revision = commands::revision_of_tree(places);
    newest = commands::age_of_records(places).newest;
    set = commands::set_in_use(places);
  } catch (const ExitError& stop) {  // Without a tree there is neither.
    set = stop.what();
  }
  return fmt::format("recapture {} ({}), newest record {}{}\n", commands::kVersion, revision, newest,
                     set.empty() ? "" : "; " + set);
}

// CLI11 treats an empty value as absent; here it is an error, usually an unset variable of a script.
void require_values(const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const std::string& word = words[i];
    if (word.empty()) {
      const bool is_of_option = i > 0 && words[i - 1].rfind('-', 0) == 0;
      throw ExitError(Exit::Usage, fmt::format("{} is empty", is_of_option ? words[i - 1] : "an argument"));
    }
    if (word.rfind("--", 0) == 0 && word.back() == '=') {
      throw ExitError(Exit::Usage, fmt::format("{} has no value", word));
    }
  }
}

// --records with a set of records replaces what all answers are made of, so every verb takes it, as --root. With a
// folder of records alone it stays the option of the verb.
void take_record_set(std::vector<std::string>& words) {
  constexpr std::string_view kOption = "--records", kWithValue = "--records=";
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const bool is_next = words[i] == kOption && i + 1 < words.size();
    if (!is_next && !words[i].starts_with(kWithValue)) continue;
    const std::string folder = is_next ? words[i + 1] : words[i].substr(kWithValue.size());
    if (!record_set_in(folder)) continue;
    if (is_next) words.erase(words.begin() + static_cast<ptrdiff_t>(i) + 1);
    words[i] = "--root=" + folder;
  }
}

std::vector<commands::Verb> add_verbs(CLI::App& app, const std::string& root) {
  std::vector<commands::Verb> verbs = {
      commands::list_verb(app, root),    commands::show_verb(app, root),      commands::run_verb(app, root),
      commands::explain_verb(app, root), commands::blame_verb(app, root),     commands::check_verb(app, root),
      commands::compare_verb(app, root), commands::gate_verb(app, root),      commands::bisect_verb(app, root),
      commands::history_verb(app, root), commands::operators_verb(app, root), commands::page_verb(app, root),
      commands::triage_verb(app, root),  commands::doctor_verb(app, root),    commands::help_verb(app)};
  for (const commands::Verb& verb : verbs) verb.command->group("Verbs");
  verbs.push_back(commands::baseline_verb(app, root));
  CLI::App& nightly = *app.add_subcommand("nightly", "Plan, collect and compare a night: plan, collect, diff");
  CLI::App& dev = *app.add_subcommand(
      "dev", "Maintain this tree: merge, pack, place, tables, catalogue, test, propose, complete, gates");
  for (CLI::App* command : {verbs.back().command, &nightly, &dev}) command->group("Verbs for maintainers");
  const commands::Verb below[] = {
      commands::nightly_plan_verb(nightly, root), commands::nightly_collect_verb(nightly, root),
      commands::nightly_diff_verb(nightly, root), commands::dev_merge_verb(dev),
      commands::dev_pack_verb(dev, root),         commands::dev_place_verb(dev, root),
      commands::dev_tables_verb(dev, root),       commands::dev_catalogue_verb(dev, root),
      commands::dev_test_verb(dev, root),         commands::dev_propose_verb(dev, root),
      commands::dev_complete_verb(dev, root),     commands::dev_gates_verb(dev, root)};
  for (const commands::Verb& verb : below) verb.command->group("Verbs");
  verbs.insert(verbs.end(), std::begin(below), std::end(below));
  for (CLI::App* command : {&app, &nightly, &dev}) command->require_subcommand(0, 1);
  for (const commands::Verb& verb : verbs) {
    verb.command->footer(commands::examples_of(verb) + "\n" + verb.command->get_footer());
  }
  return verbs;
}

// Ignores SIGPIPE and SIGXFSZ from the start: a closed pipe or a file size limit must not end the program.
class OutputSignals {
 public:
  void take_over(commands::Signals signals) {
    if (signals == commands::Signals::Untouched) {
      std::signal(SIGPIPE, pipe_);
      std::signal(SIGXFSZ, size_);
    } else if (signals == commands::Signals::Children) {
      run::become_subreaper();
      std::signal(SIGXFSZ, report);
    }
  }

 private:
  static void report(int) {}  // write() reports the error. Children inherit an ignored signal, but not a handler.

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
  app.add_flag("-V,--version", asks_version,
               "Print the version, the revision of the tree and the date of the newest record");
  const std::vector<commands::Verb> verbs = add_verbs(app, root);
  const std::vector<size_t> plain = commands::plain_words(words);
  if (!plain.empty())
    commands::require_options(app, {words.begin(), words.begin() + static_cast<ptrdiff_t>(plain.front())});
  std::vector<std::string> names;
  names.reserve(plain.size());
  for (const size_t at : plain) names.push_back(words[at]);
  const CLI::App& command = commands::find_verb(app, names);
  const auto verb =
      std::find_if(verbs.begin(), verbs.end(), [&](const commands::Verb& one) { return one.command == &command; });
  if (verb != verbs.end() && verb->program_after) commands::separate_program(command, *verb->program_after, words);
  require_values(words);
  take_record_set(words);
  if (verb != verbs.end()) {
    signals.take_over(verb->signals);
    for (CLI::Option* option : verb->command->get_options()) {
      if (option->get_items_expected_max() == 0) option->disable_flag_override();  // --exec=7 is not valid.
    }
  }
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp& help) {
    app.exit(help);
    return Exit::AsExpected;
  } catch (const CLI::ParseError& e) {
    commands::require_options(command, app.remaining());
    commands::require_arguments(command, e, app.remaining());
    throw ExitError(Exit::Usage, std::string(e.what()) + "; see --help");
  }
  if (asks_version) {
    print("{}", version(root));
    return Exit::AsExpected;
  }
  if (verb != verbs.end()) return verb->act();
  if (&command != &app) commands::refuse_group(command);
  print("{}", app.help());
  return Exit::Usage;
}

// The JSON library destroys nested values on the heap, in a destructor that must not throw. If memory runs out there,
// the program ends as for any other lack of memory.
[[noreturn]] void end_at_terminate() {
  const std::type_info* thrown = abi::__cxa_current_exception_type();
  if (thrown != nullptr && *thrown == typeid(std::bad_alloc)) {
    constexpr std::string_view kLine = "recapture: out of memory\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kLine.data(), kLine.size());
    _exit(static_cast<int>(Exit::Infrastructure));
  }
  __gnu_cxx::__verbose_terminate_handler();
  std::abort();
}

}  // namespace
}  // namespace recapture

int main(int argc, char** argv) {
  using recapture::Exit;
  std::set_terminate(recapture::end_at_terminate);
  recapture::open_standard_streams();
  recapture::OutputSignals signals;
  Exit code = Exit::Infrastructure;
  try {
    code = recapture::command_line({argv + 1, argv + argc}, signals);
  } catch (const recapture::ExitError& stop) {
    recapture::print_error(stop.what());
    code = stop.code;
  } catch (const std::system_error& e) {
    recapture::print_error(e.what());
  } catch (const std::bad_alloc&) {
    recapture::print_error("out of memory");
  } catch (const std::exception& e) {
    recapture::print_error(recapture::reason_of(e) + "; please report this line");
  }
  if (const int error = recapture::output_error(); error != 0) {
    recapture::print_error(std::string("standard output: ") + std::strerror(error));
    code = Exit::Infrastructure;
  }
  return static_cast<int>(code);
}
