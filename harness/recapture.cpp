// The program: reads the command line, lets the verb act, and ends with one line and an exit code whatever happens.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "harness/commands/commands.h"
#include "harness/run/process.h"

namespace recapture {
namespace {

constexpr const char* kExitCodes = R"(Exit codes:
  0    as expected                      5    newly fixed: a documented failure did not occur
  1    behaviour changed                6    inconclusive: could not judge, stale, cut short
  2    wrong usage, unknown name or     7    infrastructure: no GPU where one was demanded, a GPU that does
       malformed input                       not answer, no LibTorch, disk full, no permission
  4    nothing ran                      130  interrupted
A case run by hand ends with 77 where nothing that it needs is there.)";

Exit command_line(int argc, char** argv) {
  CLI::App app(
      "Recapture: the documented ways in which CUDA graphs fail under PyTorch, reproduced and kept on record.");
  app.footer(kExitCodes);
  app.require_subcommand(1);
  app.fallthrough();
  std::string root;
  app.add_option("--root", root, "Recapture's own tree (default: found from where this program lies)");
  const Verb verbs[] = {list_verb(app, root), run_verb(app, root), show_verb(app, root), merge_verb(app),
                        tables_verb(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    app.exit(help);
    return Exit::AsExpected;
  } catch (const CLI::ParseError& e) {
    throw Stop(Exit::Usage, std::string(e.what()) + "; --help says what there is");
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
  try {
    const Exit code = recapture::command_line(argc, argv);
    if (std::fflush(stdout) != 0) throw recapture::Stop(Exit::Infrastructure, "cannot write the output");
    return static_cast<int>(code);
  } catch (const recapture::Stop& stop) {
    std::fflush(stdout);
    fmt::print(stderr, "recapture: {}\n", stop.what());
    return static_cast<int>(stop.code);
  } catch (const std::exception& e) {
    std::fflush(stdout);
    fmt::print(stderr, "recapture: {}; please report this line\n", e.what());
    return static_cast<int>(Exit::Infrastructure);
  }
}
