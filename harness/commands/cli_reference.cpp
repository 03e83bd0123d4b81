// docs/reference/cli.md and docs/reference/recapture.1: every verb with its options.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>

#include "harness/commands/commands.h"
#include "harness/commands/names.h"

namespace recapture::commands {
namespace {

struct Argument {
  std::string name, values, meaning;
};

// The positionals and then the options, without the --help that every verb has.
std::vector<Argument> arguments_of(const CLI::App& app) {
  const CLI::Formatter formatter;
  std::vector<Argument> all;
  for (const bool positional : {true, false}) {
    for (const CLI::Option* option : app.get_options()) {
      const bool is_help = option == app.get_help_ptr() && app.get_parent() != nullptr;
      const bool is_hidden = option->get_group().empty();
      if (option->get_positional() != positional || is_help || is_hidden) continue;
      all.push_back({formatter.make_option_name(option, positional), formatter.make_option_opts(option),
                     option->get_description()});
    }
  }
  return all;
}

// The verb itself, or the verbs of a group.
std::vector<const CLI::App*> single_verbs(const CLI::App& verb) {
  const auto below = verbs_of(verb);
  return below.empty() ? std::vector<const CLI::App*>{&verb} : below;
}

// Without the exit codes that it inherits.
std::string own_footer(const CLI::App& verb) {
  return verb.get_footer() == verb.get_parent()->get_footer() ? "" : verb.get_footer();
}

// A verb's footer: its examples, as examples_of() writes them, and the rest.
struct Footer {
  std::vector<std::pair<std::string, std::string>> examples;
  std::string rest;
};

Footer footer_of(const CLI::App& verb) {
  constexpr std::string_view kBegin = "Examples:\n";
  Footer footer{{}, own_footer(verb)};
  if (!footer.rest.starts_with(kBegin)) return footer;
  const size_t end = std::min(footer.rest.find("\n\n"), footer.rest.size() - 1);
  std::istringstream lines(footer.rest.substr(kBegin.size(), end + 1 - kBegin.size()));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find_first_not_of(' '), gap = line.find("    ", first);
    const size_t meaning = std::min(line.find_first_not_of(' ', gap), line.size());
    footer.examples.emplace_back(line.substr(first, gap - first), line.substr(meaning));
  }
  footer.rest.erase(0, end + 2);
  return footer;
}

void add_options(const CLI::App& app, std::string& text) {
  const auto arguments = arguments_of(app);
  if (!arguments.empty()) text += "\n| argument | meaning |\n| --- | --- |\n";
  for (const auto& [name, values, meaning] : arguments) text += fmt::format("| `{}{}` | {} |\n", name, values, meaning);
}

void add_verb(const CLI::App& verb, std::string& text) {
  const std::string name = full_name(verb);
  const Footer footer = footer_of(verb);
  text += fmt::format("\n### {}\n\n{}.\n", name.substr(name.find(' ') + 1), verb.get_description());
  add_options(verb, text);
  if (!footer.examples.empty()) text += "\n";
  for (const auto& [command, meaning] : footer.examples) text += fmt::format("* `{}`: {}\n", command, meaning);
  if (!footer.rest.empty()) text += "\n" + footer.rest + "\n";
}

// Escapes text for man: no line is a command, and no option's hyphen becomes a dash.
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
  for (const auto& [name, values, meaning] : arguments_of(app)) {
    text += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(name), roff(values), roff(meaning));
  }
}

void add_verb_as_roff(const CLI::App& verb, std::string& text) {
  text += fmt::format(".SS {}\n{}.\n", roff(full_name(verb)), roff(verb.get_description()));
  add_options_as_roff(verb, text);
  const Footer footer = footer_of(verb);
  for (const auto& [command, meaning] : footer.examples) {
    text += fmt::format(".TP\n\\fI{}\\fR\n{}\n", roff(command), roff(meaning));
  }
  if (!footer.rest.empty()) text += ".PP\n" + roff(footer.rest) + "\n";
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
      std::ranges::transform(title, title.begin(), [](unsigned char c) { return std::toupper(c); });
      text += ".SH " + title + "\n";
    }
    for (const CLI::App* single : single_verbs(*verb)) add_verb_as_roff(*single, text);
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
    for (const CLI::App* single : single_verbs(*verb)) add_verb(*single, text);
  }
  return text;
}

}  // namespace recapture::commands
