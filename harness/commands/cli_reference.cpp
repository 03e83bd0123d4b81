// docs/reference/cli.md and docs/reference/recapture.1: every verb with its options.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

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

// Text as man shows it: no line of it is a command, and no hyphen of an option a dash.
std::string roff(const std::string& text) {
  std::string out;
  bool is_first = true;
  for (const char c : text) {
    if (is_first && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\' || c == '-') out += '\\';
    out += c == '\\' ? 'e' : c;
    is_first = c == '\n';
  }
  return out;
}

void add_options_as_roff(const CLI::App& app, std::string& text) {
  const CLI::Formatter formatter;
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : app.get_options()) {
      const bool is_help = option == app.get_help_ptr() && app.get_parent() != nullptr;
      if (option->get_positional() != positional || is_help) continue;
      text += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(formatter.make_option_name(option, positional)),
                          roff(formatter.make_option_opts(option)), roff(option->get_description()));
    }
  }
}

void add_verb_as_roff(const CLI::App& verb, std::string& text) {
  if (const auto below = verbs_of(verb); !below.empty()) {
    for (const CLI::App* each : below) add_verb_as_roff(*each, text);
    return;
  }
  text += fmt::format(".SS {}\n{}.\n", roff(full_name(verb)), roff(verb.get_description()));
  add_options_as_roff(verb, text);
  const std::string footer = verb.get_footer();
  if (footer != verb.get_parent()->get_footer()) text += ".PP\n" + roff(footer) + "\n";
}

}  // namespace

std::string render_man(const CLI::App& app) {
  std::string text = fmt::format(
      ".\\\" `recapture dev tables man` prints this page.\n"
      ".TH RECAPTURE 1\n.SH NAME\nrecapture \\- CUDA graph failures under PyTorch, reproduced and kept on record\n"
      ".SH SYNOPSIS\n.B recapture\n[\\-\\-root TEXT] VERB [ARGUMENT...]\n.SH DESCRIPTION\n{}\n"
      "`recapture VERB \\-\\-help` prints what this page has of one verb.\n.SH OPTIONS\n",
      roff(app.get_description()));
  add_options_as_roff(app, text);
  std::string group;
  for (const CLI::App* verb : verbs_of(app)) {
    if (verb->get_group() != group) {
      group = verb->get_group();
      std::string title = group;
      std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
      text += ".SH " + title + "\n";
    }
    add_verb_as_roff(*verb, text);
  }
  text += ".SH EXIT STATUS\n";
  for (const ExitMeaning& row : kExitMeanings) {
    text += fmt::format(".TP\n.B {}\n{}\n", static_cast<int>(row.code), roff(row.meaning));
  }
  return text + ".SH SEE ALSO\nREADME.md and docs/ below share/recapture of the installation.\n";
}

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
