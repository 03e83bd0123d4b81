// docs/reference/cli.md: every verb with its options.
#include <fmt/format.h>

#include "harness/commands/commands.h"
#include "harness/commands/names.h"

namespace recapture::commands {
namespace {

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

void add_options(const CLI::App& app, std::string& text) {
  const CLI::Formatter formatter;
  std::string rows;
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : app.get_options()) {
      const bool is_help = option == app.get_help_ptr() && app.get_parent() != nullptr;  // Every verb has it.
      if (option->get_positional() != positional || is_help) continue;
      rows += fmt::format("| `{}{}` | {} |\n", formatter.make_option_name(option, positional),
                          formatter.make_option_opts(option), option->get_description());
    }
  }
  if (!rows.empty()) text += "\n| argument | meaning |\n| --- | --- |\n" + rows;
}

void add_verb(const CLI::App& verb, std::string& text) {
  if (const auto below = verbs_of(verb); !below.empty()) {
    for (const CLI::App* each : below) add_verb(*each, text);
    return;
  }
  const std::string name = full_name(verb);
  text += fmt::format("\n### {}\n\n{}.\n", name.substr(name.find(' ') + 1), verb.get_description());
  add_options(verb, text);
  const std::string footer = verb.get_footer();
  const bool is_inherited = footer == verb.get_parent()->get_footer();  // The exit codes.
  if (!is_inherited) text += "\n" + footer + "\n";
}

}  // namespace

std::string render_cli(const CLI::App& app) {
  std::string text =
      "# Command line\n\n"
      "`recapture dev tables cli` prints this page. Each verb also takes `--help` and the options below.\n"
      "[Exit codes](exit-codes.md) has the exit codes of all verbs.\n";
  add_options(app, text);
  std::string group;
  for (const CLI::App* verb : verbs_of(app)) {
    if (verb->get_group() != group) text += "\n## " + (group = verb->get_group()) + "\n";
    add_verb(*verb, text);
  }
  return text;
}

}  // namespace recapture::commands
