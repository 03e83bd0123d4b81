// The program: reads the command line, lets the verb act, and ends with one line and an exit code whatever happens.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>

#include "harness/commands/commands.h"
#include "harness/judge/suggest.h"
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
            print("{}", verb->empty() ? app.help() : app.get_subcommand(*verb)->help(app.get_name()));
            return Exit::AsExpected;
          }};
}

// An empty value counts as none to the library, and to us as a slip: a script's variable that is not set.
void require_values(int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];
    if (word.empty()) {
      throw Stop(Exit::Usage, fmt::format("{} is empty", argv[i - 1][0] == '-' ? argv[i - 1] : "an argument"));
    }
    if (word.rfind("--", 0) == 0 && word.back() == '=') {
      throw Stop(Exit::Usage, fmt::format("{} has no value", word));
    }
  }
}

Exit command_line(int argc, char** argv) {
  CLI::App app("Recapture: the documented ways in which CUDA graphs fail under PyTorch, reproduced and kept on record.",
               "recapture");
  app.footer(exit_codes());
  app.fallthrough();
  std::string root;
  app.add_option("--root", root, "Recapture's own tree (default: found from where this program lies)");
  bool asks_version = false;
  app.add_flag("--version", asks_version, "The version, and the revision of the tree");
  require_values(argc, argv);
  const Verb verbs[] = {list_verb(app, root),    show_verb(app, root),    run_verb(app, root),
                        merge_verb(app),         tables_verb(app, root),  catalogue_verb(app, root),
                        test_verb(app, root),    explain_verb(app, root), blame_verb(app, root),
                        compare_verb(app, root), gate_verb(app, root),    good_verb(app, root),
                        bisect_verb(app, root),  history_verb(app, root), page_verb(app, root),
                        expect_verb(app, root),  ci_verb(app, root),      gather_verb(app, root),
                        news_verb(app, root),    triage_verb(app, root),  help_verb(app)};
  if (const std::string word = verb_in(argc, argv); !word.empty()) require_verb(app, word);
  for (const Verb& verb : verbs) {
    for (CLI::Option* option : verb.command->get_options()) {
      if (option->get_items_expected_max() == 0) option->disable_flag_override();  // --exec=7 means nothing.
    }
  }
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
    print("{}", version(root));
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
  recapture::open_standard_streams();
  // Only what starts processes has to end them before it ends itself.
  const std::string verb = recapture::verb_in(argc, argv);
  if (verb == "show" || verb == "merge" || verb == "compare" || verb == "gate" || verb == "history" || verb == "page" ||
      verb == "gather" || verb == "bisect" || verb == "tables" || verb == "news" || verb == "ci") {
    std::signal(SIGPIPE, SIG_IGN);
  } else if (verb != "blame") {  // Its program's signals are as they were.
    recapture::own_the_processes();
  }
  // A file that grows beyond its limit is an error to be told. A handler, as what is ignored is so in each child too.
  if (verb != "blame") std::signal(SIGXFSZ, [](int) {});
  Exit code = Exit::Infrastructure;
  try {
    code = recapture::command_line(argc, argv);
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
