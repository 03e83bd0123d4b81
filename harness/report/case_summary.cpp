#include "harness/report/case_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/lines.h"
#include "harness/base/text.h"
#include "harness/model/program.h"
#include "harness/model/release.h"
#include "harness/report/fix_code.h"
#include "harness/report/program_diff.h"
#include "harness/words/observation.h"

namespace recapture::report {
namespace {

namespace fs = std::filesystem;
using timeline::FailureForm;
using timeline::FailureOnRelease;
using timeline::FailureOutcome;
using timeline::FixCourse;

constexpr size_t kLabelWidth = 12;
constexpr size_t kMostReasonLines = 4, kMostCourses = 3, kMostCodeLines = 10;

// One line, cut at the width of the text.
std::string one_line(const std::string& text) {
  const std::string line = escape_control(text.substr(0, text.find('\n')));
  return line.size() <= kTextWidth ? line : line.substr(0, kTextWidth - 3) + "…";
}

// A label before the first of several lines, each cut.
void add(std::vector<std::string>& lines, const std::string& label, const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    lines.push_back(one_line(fmt::format("{:<{}}{}", &value == &values.front() ? label : "", kLabelWidth, value)));
  }
}

// As many sentences as fit into the lines; at least one, which may be cut.
std::vector<std::string> first_sentences(const std::string& why) {
  std::string text = why;
  for (size_t at = 0; (at = text.find("\n\n", at)) != std::string::npos;) text.replace(at, 2, " ");
  const auto lines_to = [&](size_t end) { return lines_in(wrap("", text.substr(0, end), "")); };
  size_t end = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t dot = std::min(text.find(". ", at), text.size());
    const size_t next = std::min(dot + 1, text.size());
    if (lines_to(next).size() > kMostReasonLines) break;
    end = next;
    at = dot + 2;
  }
  std::vector<std::string> lines = lines_to(end == 0 ? text.size() : end);
  if (lines.size() > kMostReasonLines) {
    lines.resize(kMostReasonLines);
    lines.back() += "…";
  }
  return lines;
}

bool has_run(FailureOutcome outcome) {
  return timeline::is_known(outcome) || outcome == FailureOutcome::NotSeen || outcome == FailureOutcome::Absent;
}

// The outcome of a test on several machines: the worst that is known.
FailureOutcome outcome_on(const FailureOnRelease& on, const std::string& test) {
  FailureOutcome worst = FailureOutcome::NotRun;
  for (const FailureForm& form : on.forms) {
    if (form.row->name != test) continue;
    const bool is_worse =
        timeline::is_known(form.outcome) && timeline::is_known(worst) ? form.outcome > worst : form.outcome < worst;
    if (is_worse) worst = form.outcome;
  }
  return worst;
}

// The tests of a failure by their course; a course that all share has no names.
std::vector<std::string> courses_of(const CaseSummary& summary) {
  std::vector<std::pair<std::string, std::vector<std::string>>> courses;
  for (const CatalogueTest& test : summary.view.one.tests) {
    if (test.kind != Kind::Reproduces || repeats(summary.view.one, test)) continue;
    std::vector<std::pair<std::string, FailureOutcome>> by_release;
    for (auto on = summary.row->releases.rbegin(); on != summary.row->releases.rend(); ++on) {
      by_release.emplace_back(on->column.release, outcome_on(*on, test.name));
    }
    const std::string course = render_course(by_release);
    const auto known = std::ranges::find(courses, course, [](const auto& one) { return one.first; });
    if (known == courses.end()) {
      courses.push_back({course, {test.name}});
    } else {
      known->second.push_back(test.name);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [course, tests] : courses) {
    const std::string text = course.empty() ? "no record has it" : course;
    const std::string names =
        tests.size() < 3 ? join(tests) : fmt::format("{} and {} more", tests[0], tests.size() - 1);
    lines.push_back(courses.size() == 1 ? text : fmt::format("{}: {}", names, text));
  }
  if (lines.size() > kMostCourses) {
    const size_t more = lines.size() - kMostCourses + 1;
    lines.resize(kMostCourses - 1);
    lines.push_back(fmt::format("and {} others", more));
  }
  return lines;
}

// What each test showed with one release, by machine.
std::vector<std::string> seen_with(const CaseSummary& summary) {
  std::vector<std::pair<std::string, std::vector<std::string>>> seen;
  for (const FailureOnRelease& on : summary.row->releases) {
    if (on.column.release != summary.release) continue;
    for (const FailureForm& form : on.forms) {
      const std::string observed = render_observed(*form.row);
      const std::string text =
          fmt::format("{}: {}{}{}", form.row->name, to_string(form.outcome), observed.empty() ? "" : ": ", observed);
      const std::string machine = label(form.judged->record.environment.machine, {});
      const auto known = std::ranges::find(seen, text, [](const auto& one) { return one.first; });
      if (known == seen.end()) {
        seen.push_back({text, {machine}});
      } else {
        add_once(known->second, machine);
      }
    }
  }
  std::vector<std::string> lines;
  const bool is_same = std::ranges::all_of(seen, [&](const auto& one) { return one.second == seen.front().second; });
  for (const auto& [text, machines] : seen) {
    lines.push_back(is_same ? text : fmt::format("{}: {}", join(machines), text));
  }
  if (is_same && !seen.empty()) lines.push_back("on " + join(seen.front().second));
  constexpr size_t kMost = 5;
  if (lines.size() > kMost) {
    const size_t more = lines.size() - kMost + 1;
    lines.resize(kMost - 1);
    lines.push_back(fmt::format("and {} other results", more));
  }
  if (lines.empty()) lines.emplace_back("no record has it");
  return lines;
}

// The GPUs on which it failed.
std::string machines_of(const CaseSummary& summary) {
  std::vector<std::string> machines;
  for (const FailureOnRelease& on : summary.row->releases) {
    for (const FailureForm& form : on.forms) {
      if (!timeline::is_known(form.outcome) || form.outcome == FailureOutcome::Works) continue;
      add_once(machines, label(form.judged->record.environment.machine, {.driver = true}));
    }
  }
  std::ranges::sort(machines);
  return join(machines, "; ");
}

// The newest release's message, unless the document has the same.
std::string message_of(const CaseSummary& summary) {
  for (const FailureOnRelease& on : summary.row->releases) {
    for (const FailureForm& form : on.forms) {
      const TestRecord* test = form.test();
      if (test == nullptr || form.outcome == FailureOutcome::Works) continue;
      const std::string message = details_of(*test).message;
      if (!message.empty()) return message.substr(0, message.find('\n'));
    }
  }
  return "";
}

// The first change upstream that this case is about.
std::vector<std::string> changes_of(const CaseSummary& summary) {
  std::vector<std::string> lines;
  for (const Deviation& change : summary.view.changes) {
    const bool is_its = std::ranges::any_of(change.expectations, [&](const Expectation& expected) {
      return case_of(expected.test) == summary.view.one.id;
    });
    if (!is_its || change.what.empty()) continue;
    lines.push_back(
        fmt::format("{}{}: {}", change.number, change.since.empty() ? "" : ", since " + change.since, change.what));
  }
  if (lines.size() > 1) {
    lines.front() =
        fmt::format("{}; and {} more", lines.front().substr(0, kTextWidth - kLabelWidth - 16), lines.size() - 1);
    lines.resize(1);
  }
  return lines;
}

struct Fix {
  const CatalogueTest* what;
  std::string text;
};

// The one to take first, then the others in the case's order.
std::vector<Fix> fixes_of(const CaseSummary& summary) {
  std::vector<std::string> releases;
  if (summary.row != nullptr) {
    for (const FailureOnRelease& on : summary.row->releases) releases.insert(releases.begin(), on.column.release);
  }
  const CatalogueTest* best = summary.row == nullptr ? nullptr : summary.row->instead();
  std::vector<Fix> fixes;
  for (const CatalogueTest& test : summary.view.one.tests) {
    if (test.kind != Kind::Fix || repeats(summary.view.one, test)) continue;
    std::vector<std::string> course;
    if (summary.row != nullptr) {
      for (const FixCourse& fix : summary.row->fixes) {
        if (fix.what->name != test.name) continue;
        const std::string holds = span_of(fix.holds, releases), broken = span_of(fix.broken, releases);
        if (!holds.empty()) course.push_back("works in " + holds);
        if (!broken.empty()) course.push_back("does not work in " + broken);
      }
      if (course.empty()) course.emplace_back("not run");
    }
    const std::string text = test.fix.empty() ? test.name : test.fix;
    fixes.push_back({&test, course.empty() ? text : fmt::format("{} ({})", text, join(course, "; "))});
    if (best != nullptr && best->name == test.name) std::rotate(fixes.begin(), fixes.end() - 1, fixes.end());
  }
  return fixes;
}

std::string source_of(const CaseSummary& summary, const CatalogueCase& one) {
  const std::string path = fmt::format("{}/cases/{}/{}.cpp", summary.root, one.family, one.id);
  std::error_code error;
  return fs::is_regular_file(path, error) ? contents_of(path) : "";
}

bool has_program(const CatalogueCase& one) {
  return std::ranges::any_of(one.tests, [](const CatalogueTest& test) { return is_of_program(test.name); });
}

// What the program of the case changes for this fix, with the lines around it; empty without a program.
std::vector<std::string> diff_of(const CaseSummary& summary, const CatalogueTest& fix, size_t most) {
  const CatalogueCase& one = summary.view.one;
  if (!has_program(one)) return {};
  const std::string program = contents_of(fmt::format("{}/cases/{}/{}.py", summary.root, one.family, one.id));
  for (const std::string& function : functions_in(program)) {
    const std::string test = test_of_function(function);
    if (test == fix.name || test == std::string(kProgramPrefix) + fix.name)
      return program_diff(program, function, most);
  }
  return {};
}

// In Python if the case, or one of the same failure in Python, has a program for this fix.
std::vector<std::string> code_of(const CaseSummary& summary, const CatalogueTest& fix) {
  bool is_python = false;
  std::string code = fix_code(source_of(summary, summary.view.one), fix.name, is_python);
  for (const CatalogueCase* other : summary.python) {
    if (is_python) break;
    const std::string its = fix_code(source_of(summary, *other), fix.name, is_python);
    if (is_python) code = its;
  }
  return lines_in(code);
}

// The code, and what is cut of it.
std::vector<std::string> cut(std::vector<std::string> lines, size_t most) {
  if (lines.size() > most) {
    lines.resize(most == 0 ? 0 : most - 1);
    if (most > 0) lines.emplace_back("…");
  }
  return lines;
}

std::vector<std::string> documented_in(const CaseView& view) {
  std::vector<std::string> lines;
  for (const Json& source : view.one.sources) {
    const std::string id = cited_id(source), heading = source.at("heading");
    const CitedSource* cited = find_source(view.sources, id);
    const std::string where = cited == nullptr ? id : cited->url;
    lines.push_back(id == heading ? where : fmt::format("{} ({})", where, heading));
  }
  constexpr size_t kMost = 2;
  if (lines.size() > kMost) {
    lines[kMost - 1] = fmt::format("and {} more", lines.size() - kMost + 1);
    lines.resize(kMost);
  }
  return lines;
}

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  return text;
}

void add_results(const CaseSummary& summary, std::vector<std::string>& lines) {
  const CatalogueCase& one = summary.view.one;
  if (one.fidelity == Fidelity::Simulated) {
    add(lines, "releases", {"none: a model of ours, on the host, shows it"});
    return;
  }
  if (summary.row == nullptr) {
    add(lines, "releases", {"`recapture operators` has them"});
    return;
  }
  if (!summary.release.empty()) {
    add(lines, "with " + summary.release, seen_with(summary));
    return;
  }
  add(lines, "releases", courses_of(summary));
  if (const std::string machines = machines_of(summary); !machines.empty()) add(lines, "seen on", {machines});
}

// Of each machine that no record has, in full: who asks about such a machine must see it.
void add_notes(const CaseSummary& summary, std::vector<std::string>& lines) {
  const std::string indent(kLabelWidth, ' ');
  for (const std::string& note : neighbour_notes(summary.view)) {
    for (const std::string& line : lines_in(wrap(fmt::format("{:<{}}", "note", kLabelWidth), note, indent))) {
      lines.push_back(line);
    }
  }
}

}  // namespace

std::string span_of(const std::vector<std::string>& releases, const std::vector<std::string>& all) {
  std::vector<std::string> spans;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!contains(releases, all[i])) continue;
    size_t last = i;
    while (last + 1 < all.size() && contains(releases, all[last + 1])) ++last;
    spans.push_back(last > i ? fmt::format("{} to {}", all[i], all[last]) : all[i]);
    i = last;
  }
  std::string text;
  for (size_t i = 0; i < spans.size(); ++i) text += (i == 0 ? "" : i + 1 == spans.size() ? " and " : ", ") + spans[i];
  return text;
}

std::string render_course(const std::vector<std::pair<std::string, FailureOutcome>>& by_release) {
  std::vector<std::pair<FailureOutcome, std::vector<std::string>>> runs;
  for (const auto& [release, outcome] : by_release) {
    if (!has_run(outcome)) continue;
    if (runs.empty() || runs.back().first != outcome) runs.push_back({outcome, {}});
    runs.back().second.push_back(release);
  }
  std::vector<std::string> parts;
  parts.reserve(runs.size());
  for (const auto& [outcome, releases] : runs) {
    parts.push_back(
        fmt::format("{} in {}", to_string(outcome),
                    releases.size() < 3 ? join(releases, " and ") : releases.front() + " to " + releases.back()));
  }
  return join(parts, "; ");
}

std::string render_summary(const CaseSummary& summary) {
  const CatalogueCase& one = summary.view.one;
  std::vector<std::string> lines = {one_line(one.id + ": " + one.title), ""};
  for (const std::string& line : first_sentences(one.why)) lines.push_back(line);
  lines.emplace_back();
  std::vector<std::string> error = {one.documented};
  const std::string message = summary.row == nullptr ? "" : message_of(summary);
  if (!message.empty() && one.documented.find(message) == std::string::npos) error.push_back(message);
  add(lines, "the error", error);
  add_results(summary, lines);
  add_notes(summary, lines);
  add(lines, "changed by", changes_of(summary));

  std::vector<std::string> end;
  add(end, "documented", documented_in(summary.view));
  std::vector<std::string> more = {fmt::format("recapture show {} --all{}, or 2.11, or --gpu H100", one.id,
                                               has_program(one) ? ", or --python" : "")};
  if (one.family == "errors") more.emplace_back("recapture blame -- PROGRAM    which call it was in your program");
  add(end, "more", more);
  const std::vector<Fix> fixes = fixes_of(summary);
  if (fixes.empty()) {
    lines.emplace_back();
    lines.emplace_back("No fix is documented.");
  } else {
    lines.emplace_back();
    lines.emplace_back("what to write instead");
    for (const std::string& line : cut(lines_in(wrap("  ", fixes.front().text, "  ")), 2)) lines.push_back(line);
    const size_t taken = lines.size() + end.size() + 1, free = kSummaryLines > taken ? kSummaryLines - taken : 0;
    const size_t others = fixes.size() - 1, for_others = std::min<size_t>(others, 1);
    const size_t most = std::min(kMostCodeLines, free > for_others ? free - for_others : 0);
    std::vector<std::string> code = diff_of(summary, *fixes.front().what, most);
    if (code.empty()) code = code_of(summary, *fixes.front().what);
    code = cut(code, most);
    for (const std::string& line : code) lines.push_back(one_line("      " + line));
    const size_t left = std::max(free - std::min(free, code.size()), for_others);
    for (size_t i = 0; i < others; ++i) {
      if (i + 1 == left && others > left) {
        lines.push_back(fmt::format("  or one of {} other fixes, which --all lists", others - i));
        break;
      }
      lines.push_back(one_line("  or: " + fixes[i + 1].text));
    }
  }
  lines.emplace_back();
  lines.insert(lines.end(), end.begin(), end.end());
  return text_of(lines);
}

std::string render_summary(const explain::Cause& cause) {
  std::vector<std::string> lines = {one_line(cause.id + ": " + cause.title), ""};
  if (!cause.why.empty()) {
    for (const std::string& line : first_sentences(cause.why)) lines.push_back(line);
    lines.emplace_back();
  }
  if (!cause.codes.empty()) add(lines, "CUDA error", {join(cause.codes)});
  if (!cause.calls.empty()) add(lines, "calls", {join(cause.calls)});
  add(lines, "releases", {cause.no_case.empty() ? "no case runs it alone" : "no case runs it: " + cause.no_case});
  lines.emplace_back();
  if (!cause.fixes.empty() || !cause.also.empty()) lines.emplace_back("what to write instead");
  for (const std::string& fix : cause.fixes) {
    for (const std::string& line : lines_in(wrap("  ", fix, "    "))) lines.push_back(line);
  }
  for (const std::string& useless : cause.useless) lines.push_back(one_line("  does not help: " + useless));
  std::vector<std::string> more;
  for (const std::string& id : cause.also) {
    if (more.size() == kMostCourses) break;
    more.push_back("recapture show " + id);
  }
  if (!cause.link.empty()) more.push_back(cause.link);
  if (!more.empty()) {
    lines.emplace_back();
    add(lines, "more", more);
  }
  return text_of(lines);
}

}  // namespace recapture::report
