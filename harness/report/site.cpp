#include "harness/report/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "harness/base/embed.h"
#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/text.h"
#include "harness/report/case_view.h"

// The sources of the site are part of the program. CMake builds this file again when one of them changes.
RECAPTURE_EMBED(site_css, "harness/report/site.css");
RECAPTURE_EMBED(site_js, "harness/report/site.js");

namespace recapture::report {
namespace {

namespace fs = std::filesystem;
using timeline::FailureForm;
using timeline::FailureOnRelease;
using timeline::FailureOutcome;
using timeline::FailureRow;

constexpr size_t kMostSearched = 300;  // Of an error text, what the search looks at.

// Text with its lines, and nothing that could steer the page.
std::string lines_html(const std::string& text) {
  std::string html;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    html += escape_html(text.substr(at, end - at)) + (end < text.size() ? "\n" : "");
    at = end + 1;
  }
  return html;
}

std::string class_of(std::string_view word) {
  std::string name(word);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string badge(std::string_view word) {
  return fmt::format(R"(<span class="o {}">{}</span>)", class_of(word), escape_html(word));
}
std::string badge(FailureOutcome outcome) { return badge(to_string(outcome)); }

std::string link(const std::string& url, const std::string& text) {
  return fmt::format(R"(<a href="{}">{}</a>)", escape_html(url), escape_html(text));
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// `up` leads from the page's folder to the site's.
std::string document(const std::string& title, const std::string& description, const std::string& up,
                     std::string_view current, const std::string& body, const std::string& body_class = "") {
  std::string nav;
  for (const auto& [page, name] : {std::pair{"index.html", "Failures"}, std::pair{"operators.html", "Operators"},
                                   std::pair{kUpgradePage, "Upgrade and history"}}) {
    nav += fmt::format(R"(<a href="{}{}"{}>{}</a>)", up, page, current == page ? " aria-current=\"page\"" : "", name);
  }
  return fmt::format(
      R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="{}">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<title>{}</title>
<style>
{}</style>
</head>
<body class="{}" data-upgrade="{}{}">
<header><h1><a href="{}index.html" aria-label="Recapture: all failures">Recapture</a></h1><nav aria-label="Site">{}</nav></header>
<main>
{}</main>
<script>
{}</script>
</body>
</html>
)",
      escape_html(description), escape_html(title), site_css, body_class, up, kUpgradePage, up, nav, body, site_js);
}

// Oldest release first, by runs of releases with one outcome: "raises in 2.1.2 to 2.10.0; works in 2.11.0 and 2.12.1".
std::string course_of(const FailureRow& row) {
  std::vector<std::pair<FailureOutcome, std::vector<std::string>>> runs;
  for (auto on = row.releases.rbegin(); on != row.releases.rend(); ++on) {
    if (!is_known(on->worst) && on->worst != FailureOutcome::NotSeen && on->worst != FailureOutcome::Absent) continue;
    if (runs.empty() || runs.back().first != on->worst) runs.push_back({on->worst, {}});
    runs.back().second.push_back(on->release);
  }
  std::vector<std::string> parts;
  for (const auto& [outcome, releases] : runs) {
    parts.push_back(
        fmt::format("{} in {}", to_string(outcome),
                    releases.size() < 3 ? join(releases, " and ") : releases.front() + " to " + releases.back()));
  }
  return parts.empty() ? "no record has it" : join(parts, "; ");
}

std::string cell(const FailureOnRelease& on) {
  const bool is_part = is_known(on.worst) && on.failing > 0 && on.failing < on.known;
  return fmt::format(R"(<td class="c">{}{}</td>)", badge(on.worst),
                     is_part ? fmt::format(R"(<div class="note">{} of {}</div>)", on.failing, on.known) : "");
}

// Each message of the failure once, the newest release's first.
std::vector<std::string> messages_of(const FailureRow& row) {
  std::vector<std::string> messages;
  for (const FailureOnRelease& on : row.releases) {
    for (const FailureForm& form : on.forms) {
      const TestRecord* test = form.test();
      if (test == nullptr || form.outcome == FailureOutcome::Works) continue;
      if (const std::string message = details_of(*test).message; !message.empty()) add_once(messages, message);
    }
  }
  return messages;
}

std::string searched(const FailureRow& row) {
  const CatalogueCase& one = *row.what;
  std::string text = one.id + " " + one.title + " " + one.documented + " " + join(one.tags, " ") + " " + one.family;
  for (const CatalogueTest& test : one.tests) text += " " + test.fix;
  std::set<std::string> calls;
  for (const FailureOnRelease& on : row.releases) {
    for (const FailureForm& form : on.forms) {
      if (const TestRecord* test = form.test(); test != nullptr) calls.insert(test->culprit("api"));
    }
  }
  text += " " + join(calls, " ");
  std::vector<std::string> starts;
  for (const std::string& message : messages_of(row)) add_once(starts, message.substr(0, kMostSearched));
  return lower(escape_control(text + " " + join(starts, " ")));
}

std::string head_of_table(const std::string& first, const std::vector<std::string>& releases) {
  std::string head = fmt::format(R"(<thead><tr><th scope="col">{}</th>)", first);
  for (const std::string& release : releases) head += fmt::format(R"(<th scope="col">{}</th>)", escape_html(release));
  return head + "</tr></thead>\n";
}

std::string row_html(const FailureRow& row) {
  std::string html = fmt::format(R"(<tr data-text="{}"><th scope="row"><a href="failures/{}.html">{}</a></th>)",
                                 escape_html(searched(row)), row.what->id, escape_html(row.what->title));
  for (const FailureOnRelease& on : row.releases) html += cell(on);
  return html + "</tr>\n";
}

std::string word_of(const timeline::OperatorOnRelease& on) {
  if (on.absent) return "no such API";
  const auto worst = on.worst();
  return worst ? std::string(to_string(*worst)) : "eager fails";
}

// One row an operator, in the order of its list, the newest release first.
std::string operator_rows(const timeline::OperatorTable& table, bool has_advice) {
  std::string html;
  for (const timeline::OperatorRow& row : table.rows) {
    const std::string advice = row.instead.name.empty() ? "" : row.instead.advice;
    html += fmt::format(
        R"(<tr id="{0}" data-text="{1}"><th scope="row">{2}</th>)", escape_html(row.what.name),
        escape_html(lower(row.what.name + " " + row.what.call)),
        has_advice ? "<code>" + escape_html(row.what.call) + "</code>"
                   : fmt::format(R"(<a href="operators.html?q={0}"><code>{0}</code></a>)", escape_html(row.what.call)));
    for (auto release = table.releases.rbegin(); release != table.releases.rend(); ++release) {
      const auto found = std::find_if(row.releases.begin(), row.releases.end(),
                                      [&](const auto& on) { return on.release == *release; });
      html += fmt::format(R"(<td class="c">{})", badge(found == row.releases.end() ? "not run" : word_of(*found)));
      html += "</td>";
    }
    if (has_advice) html += "<td>" + escape_html(advice) + "</td>";
    html += "</tr>\n";
  }
  return html;
}

std::string operator_head(const timeline::OperatorTable& table) {
  std::string head = R"(<thead><tr><th scope="col">Operator</th>)";
  for (auto release = table.releases.rbegin(); release != table.releases.rend(); ++release) {
    head += fmt::format(R"(<th scope="col">{}</th>)", escape_html(*release));
  }
  return head;
}

std::string legend() {
  std::string html = "<ul class=\"legend\" aria-label=\"Legend\">";
  for (const FailureOutcome outcome :
       {FailureOutcome::Works, FailureOutcome::Raises, FailureOutcome::SilentlyWrong, FailureOutcome::Leaks,
        FailureOutcome::Hangs, FailureOutcome::Crashes, FailureOutcome::Warns, FailureOutcome::NotSeen,
        FailureOutcome::Absent, FailureOutcome::Unavailable, FailureOutcome::NotRun}) {
    html += fmt::format("<li>{} {}</li>", badge(outcome), meaning(outcome));
  }
  return html + "</ul>\n";
}

std::string index_page(const SiteInput& input) {
  const auto& [releases, rows] = input.failures;
  std::string options = "<option value=\"\">all releases</option>";
  for (const std::string& release : releases) options += fmt::format("<option>{}</option>", escape_html(release));
  std::string body = fmt::format(
      R"(<p class="lead">Does it fail in my release, and what do I write instead? {} failures of CUDA graphs under PyTorch on {} releases, as seen on real GPUs.</p>
<div class="search" role="search"><label for="search">Search</label><input id="search" type="search" placeholder="an error text, a call, an operator, a failure: 901, cuStreamSynchronize, nonzero, DDP …" spellcheck="false" autocomplete="off">
<label for="release">Release</label><select id="release">{}</select><span id="count" role="status" class="note"></span></div>
)",
      rows.size(), releases.size(), options);
  body += legend();
  body +=
      R"(<section aria-labelledby="failures"><h2 id="failures">Failures</h2><div class="scroll" tabindex="0" role="group" aria-labelledby="failures"><table data-rows="failures" data-one="failure" data-releases>)";
  body += head_of_table("What goes wrong", releases);
  std::map<std::string, std::string> families;
  std::string never;
  size_t without = 0;
  for (const FailureRow& row : rows) {
    if (row.has_known()) {
      families[row.what->family] += row_html(row);
    } else {
      never += row_html(row);
      ++without;
    }
  }
  for (const auto& [family, text] : families) {
    body += fmt::format("<tbody><tr class=\"family\"><th colspan=\"{}\" scope=\"rowgroup\">{}</th></tr>\n{}</tbody>\n",
                        releases.size() + 1, escape_html(family), text);
  }
  body += "</table></div></section>\n";
  if (without > 0) {
    body += fmt::format(
        R"(<section data-folded><details><summary>{} without a result</summary><div class="scroll"><table data-rows="failures without a result" data-one="failure without a result" data-releases>{}<tbody>{}</tbody></table></div></details></section>
)",
        plural(without, "failure"), head_of_table("What goes wrong", releases), never);
  }
  body += fmt::format(
      R"(<section data-folded><h2 id="operators">Operators</h2><details><summary>{} of PyTorch, and whether each can be captured</summary><div class="scroll"><table data-rows="operators" data-one="operator">{}</tr></thead><tbody>{}</tbody></table></div></details></section>
<footer>Made from records of real runs, the newest of {}. A cell is the worst outcome of the release's own libraries on any GPU on record; "2 of 3" counts the forms of the failure that do not work. The page of a failure names each run.</footer>
)",
      plural(input.operators.rows.size(), "operator"), operator_head(input.operators),
      operator_rows(input.operators, false), escape_html(input.newest.substr(0, 10)));
  return document("Recapture: which CUDA graph failures show in which PyTorch release",
                  "Failures of CUDA graphs under PyTorch, release by release, reproduced on real GPUs, with fixes.", "",
                  "index.html", body);
}

std::string operators_page(const SiteInput& input) {
  const std::string body = fmt::format(
      R"(<p class="lead">Can it be captured in a CUDA graph? {} of PyTorch, as run on a GPU.</p>
<div class="search" role="search"><label for="search">Search</label><input id="search" type="search" placeholder="an operator: one_hot, linalg.inv …" spellcheck="false" autocomplete="off"><span id="count" role="status" class="note"></span></div>
<section aria-label="Operators"><div class="scroll" tabindex="0" role="group" aria-label="Operators"><table data-rows="operators" data-one="operator">{}<th scope="col">What to capture instead</th></tr></thead><tbody>{}</tbody></table></div></section>
<footer><code>recapture operators NAME</code> has the call and the message of each refusal.</footer>
)",
      plural(input.operators.rows.size(), "operator"), operator_head(input.operators),
      operator_rows(input.operators, true));
  return document("Recapture: which PyTorch operators can be captured in a CUDA graph",
                  "Each operator of PyTorch under CUDA graph capture, release by release.", "", "operators.html", body);
}

// The body of a test in the case's source, as it stands; empty where it is not found.
std::string code_of(const std::string& source, const std::string& test) {
  const size_t name = source.find(", " + test + ") {\n");
  if (name == std::string::npos) return "";
  const size_t begin = source.find('\n', name) + 1, end = source.find("\n}\n", name);
  return end == std::string::npos || begin > end ? "" : source.substr(begin, end - begin);
}

const CitedSource* find_source(const std::vector<CitedSource>& sources, const std::string& id) {
  const auto found = std::find_if(sources.begin(), sources.end(), [&](const auto& one) { return one.id == id; });
  return found == sources.end() ? nullptr : &*found;
}

// "pytorch#1, pytorch#2" with links to those that are cited.
std::string numbers_html(const SiteInput& input, const std::string& numbers) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < numbers.size();) {
    const size_t end = std::min(numbers.find(", ", at), numbers.size());
    const std::string id = numbers.substr(at, end - at);
    const CitedSource* cited = find_source(input.sources, id);
    parts.push_back(cited == nullptr ? escape_html(id) : link(cited->url, id));
    at = end + 2;
  }
  return join(parts);
}

std::string changes_html(const SiteInput& input, const CatalogueCase& one) {
  std::string items;
  for (const Change& change : input.changes) {
    std::vector<std::string> where;
    for (const Expectation& expected : change.expectations) {
      if (case_of(expected.test) != one.id) continue;
      add_once(where, fmt::format("{}{}", expected.where.release.empty() ? "all releases" : expected.where.release,
                                  expected.result == Result::Healthy ? ": works" : ""));
    }
    if (where.empty()) continue;
    items += fmt::format("<li>{}{}: {}. <span class=\"note\">On record for {}.</span></li>\n",
                         numbers_html(input, change.number),
                         change.since.empty() ? "" : escape_html(", since " + change.since),
                         escape_html(change.what.empty() ? "a change" : change.what), escape_html(join(where, "; ")));
  }
  return items.empty() ? "" : "<h2>What changed upstream</h2>\n<ul>\n" + items + "</ul>\n";
}

std::string fixes_html(const SiteInput& input, const CatalogueCase& one, const std::string& source,
                       const ResultMatrix& matrix) {
  std::string html;
  for (const CatalogueTest& test : one.tests) {
    if (test.kind != Kind::Fix) continue;
    std::vector<std::string> holds, broken;
    for (const std::string& release : input.failures.releases) {
      bool held = false, failed = false;
      for (const JudgedRun& judged : matrix.records()) {
        const Record& record = judged.record;
        if (record.env("release") != release || record.broken() != Break::Nothing) continue;
        if (!record.environment.machine.is_plain()) continue;
        for (const TestVerdict& row : judged.rows) {
          if (row.name != test.name || row.case_id != one.id) continue;
          held = held || row.result == Result::Holds;
          failed = failed || row.result == Result::Broken;
        }
      }
      if (held) holds.push_back(release);
      if (failed && !held) broken.push_back(release);
    }
    html += fmt::format("<h3 id=\"{}\">{}</h3>\n", escape_html(test.name),
                        escape_html(test.fix.empty() ? test.name : test.fix));
    html += fmt::format(
        "<p class=\"note\">{}{}</p>\n",
        holds.empty() ? "No run on record shows that it holds." : "Holds in " + escape_html(join(holds)) + ".",
        broken.empty() ? "" : " Does not hold in " + escape_html(join(broken)) + ".");
    if (const std::string code = code_of(source, test.name); !code.empty()) {
      html += fmt::format(
          "<details><summary>Code that works</summary><pre tabindex=\"0\"><code>{}</code></pre></details>\n",
          lines_html(code));
    }
  }
  return html.empty() ? "" : "<h2>What works instead</h2>\n" + html;
}

std::string runs_html(const SiteInput& input, const FailureRow& row) {
  std::string rows;
  for (const FailureOnRelease& on : row.releases) {
    for (const FailureForm& form : on.forms) {
      const Record& record = form.judged->record;
      const std::string gpu = record.env("gpu"), driver = record.env("driver");
      rows += fmt::format(
          "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td class=\"mono\">{}</td><td "
          "class=\"mono\">{}</td></tr>\n",
          escape_html(on.release), escape_html(form.row->name),
          escape_html(gpu.empty() ? "no GPU" : gpu + ", driver " + driver), badge(form.outcome),
          escape_html(truncated(render_observed(*form.row))),
          escape_html(fs::path(record.path).lexically_relative(input.records).string()));
    }
  }
  if (rows.empty()) return "<p>No record has it.</p>\n";
  return R"(<details><summary>Each run on record</summary><div class="table" tabindex="0" role="group" aria-label="Each run on record"><table><thead><tr><th scope="col">Release</th><th scope="col">Test</th><th scope="col">GPU</th><th scope="col">Outcome</th><th scope="col">Seen</th><th scope="col">Record</th></tr></thead><tbody>
)" + rows +
         "</tbody></table></div></details>\n";
}

std::string failure_page(const SiteInput& input, const FailureRow& row, const ResultMatrix& matrix) {
  const CatalogueCase& one = *row.what;
  const std::string path = fmt::format("cases/{}/{}.cpp", one.family, one.id);
  std::string source;
  if (std::error_code error; fs::is_regular_file(input.root + "/" + path, error)) {
    source = contents_of(input.root + "/" + path);
  }
  std::string body = fmt::format("<h1>{}</h1>\n", escape_html(one.title));
  for (size_t at = 0; at < one.why.size();) {
    const size_t end = std::min(one.why.find("\n\n", at), one.why.size());
    body += "<p>" + escape_html(one.why.substr(at, end - at)) + "</p>\n";
    at = end + 2;
  }
  body += "<h2>In which release</h2>\n<ul class=\"strip\">";
  for (const FailureOnRelease& on : row.releases) {
    body += fmt::format("<li>{}{}</li>", escape_html(on.release), badge(on.worst));
  }
  body += fmt::format("</ul>\n<p>{}.</p>\n", escape_html(course_of(row)));
  const auto messages = messages_of(row);
  body += "<h2>The error</h2>\n<pre class=\"wraps\">" + escape_html(one.documented) + "</pre>\n";
  for (const std::string& message : messages) body += "<pre class=\"wraps\">" + lines_html(message) + "</pre>\n";
  for (const CatalogueTest& test : one.tests) {
    if (test.kind != Kind::Reproduces) continue;
    const std::string code = code_of(source, test.name);
    if (code.empty()) continue;
    body += "<h2>Code that fails</h2>\n<pre tabindex=\"0\"><code>" + lines_html(code) + "</code></pre>\n";
    break;
  }
  body += fixes_html(input, one, source, matrix) + changes_html(input, one);
  body += "<h2>On record</h2>\n" + runs_html(input, row);
  std::string cites;
  for (const Json& cited : one.sources) {
    const std::string id = cited_id(cited), heading = cited.at("heading");
    const CitedSource* known = find_source(input.sources, id);
    cites += fmt::format("<li>{}{}</li>\n", known == nullptr ? escape_html(id) : link(known->url, known->title),
                         id == heading ? "" : escape_html(", " + heading));
  }
  body += "<h2>Described in</h2>\n<ul>\n" + cites + "</ul>\n";
  body += fmt::format(
      "<footer>Case <code>{}</code>, family {}, {}. <code>recapture show {}</code> has each stack, rate and price; the "
      "case is <code>{}</code>.</footer>\n",
      escape_html(one.id), escape_html(one.family), to_string(one.nature), escape_html(one.id), escape_html(path));
  return document(one.title + " – Recapture", one.why.substr(0, one.why.find("\n\n")), "../", "", body, "page");
}

}  // namespace

std::map<std::string, std::string> render_site(const SiteInput& input, const ResultMatrix& matrix) {
  std::map<std::string, std::string> pages = {{"index.html", index_page(input)},
                                              {"operators.html", operators_page(input)}};
  for (const FailureRow& row : input.failures.rows) {
    pages["failures/" + row.what->id + ".html"] = failure_page(input, row, matrix);
  }
  return pages;
}

}  // namespace recapture::report
