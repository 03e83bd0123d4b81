#include "harness/report/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "harness/base/embed.h"
#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/letter_case.h"
#include "harness/base/text.h"
#include "harness/case/tags.h"
#include "harness/model/release.h"
#include "harness/report/case_summary.h"
#include "harness/report/case_view.h"
#include "harness/report/extent.h"
#include "harness/report/fix_code.h"
#include "harness/report/operators.h"
#include "harness/timeline/failures.h"
#include "harness/verdict/duration.h"
#include "harness/verdict/price.h"
#include "harness/words/measurement.h"
#include "harness/words/observation.h"

// The site's sources are embedded. CMake rebuilds this file when one of them changes.
RECAPTURE_EMBED(site_css, "harness/report/site.css");
RECAPTURE_EMBED(site_js, "harness/report/site.js");
RECAPTURE_EMBED(site_words_js, "harness/report/words.js");

namespace recapture::report {
namespace {

namespace fs = std::filesystem;
using timeline::failure_table;
using timeline::FailureColumn;
using timeline::FailureColumns;
using timeline::FailureForm;
using timeline::FailureOnRelease;
using timeline::FailureOutcome;
using timeline::FailureRow;
using timeline::FailureTable;
using timeline::FixCourse;

constexpr char kNotRun[] = "not run";
constexpr size_t kMostSearched = 300;  // Searched length of an error text.

// Escapes text, keeping its lines.
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

constexpr std::array<std::pair<const char*, const char*>, 3> kPages = {
    {{"index.html", "Failures"}, {"operators.html", "Operators"}, {kUpgradePage, "Upgrade and history"}}};
constexpr char kPlaceholder[] =
    "an error text, a call, an operator, a feature, releases: 901, nonzero, DDP, 2.9 to 2.13, CUDA 13";

// A page of the site, or the single page with all of it.
struct Document {
  std::string title, description;
  std::string body;
  std::string up = {};       // From the page's folder to the site's.
  std::string current = {};  // Of kPages.
  std::string css_class = {};
  bool is_single = false;
};

std::string render(const Document& page) {
  std::string nav;
  for (const auto& [path, name] : kPages) {
    if (page.is_single && path == std::string(kUpgradePage)) continue;
    const std::string to = !page.is_single ? page.up + path : path == std::string("index.html") ? "#" : "#operators";
    nav += fmt::format(R"(<a href="{}"{}>{}</a>)", to, page.current == path ? " aria-current=\"page\"" : "", name);
  }
  const std::string search =
      page.current.empty()
          ? fmt::format(
                R"(<div class="search" role="search"><span class="text"><label for="search">Search</label><input id="search" type="search" data-leads="{}index.html" placeholder="{}" spellcheck="false" autocomplete="off"></span></div>)",
                page.up, kPlaceholder)
          : "";
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
<body class="{}" data-upgrade="{}">
<header><h1><a href="{}" aria-label="Recapture: all failures">Recapture</a></h1><nav aria-label="Site">{}</nav>{}</header>
{}<script>
{}{}</script>
</body>
</html>
)",
      escape_html(page.description), escape_html(page.title), site_css, page.css_class,
      page.is_single ? "" : page.up + kUpgradePage, page.is_single ? "#" : page.up + "index.html", nav, search,
      page.body, page.current.empty() ? "" : site_words_js, site_js);
}

std::string main_of(const std::string& body) { return "<main>\n" + body + "</main>\n"; }

// Oldest release first, by ranges of releases with one outcome.
std::string course_of(const FailureRow& row) {
  std::vector<std::pair<std::string, FailureOutcome>> by_release;
  for (auto on = row.releases.rbegin(); on != row.releases.rend(); ++on) {
    by_release.emplace_back(on->column.release, on->worst);
  }
  const std::string course = render_course(by_release);
  return course.empty() ? "no record has it" : course;
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
  return lower_case(escape_control(text + " " + join(starts, " ")));
}

std::string head_of_table(const std::string& first, const std::vector<FailureColumn>& columns) {
  std::string head = fmt::format(R"(<thead><tr><th scope="col">{}</th>)", first);
  for (const auto& [release, detail] : columns) {
    head += fmt::format(R"(<th scope="col" data-release="{0}" data-detail="{1}">{0}<div class="note">{1}</div></th>)",
                        escape_html(release), escape_html(detail));
  }
  return head + "</tr></thead>\n";
}

// Numbers of kTags.
std::string tags_of(const CatalogueCase& one) {
  std::vector<std::string> numbers;
  for (const std::string& name : one.tags) {
    if (const Tag* tag = tag_of(name)) numbers.push_back(std::to_string(tag - kTags.data()));
  }
  return join(numbers, ",");
}

std::string notes_html(size_t columns, const std::string& note) {
  return fmt::format("<tr class=\"notes\"><td colspan=\"{}\"><span>{}</span></td></tr>\n", columns, escape_html(note));
}

// The note below a row: what to use instead.
std::string note_of(const FailureRow& row) {
  if (const CatalogueTest* fix = row.instead(); fix != nullptr)
    return "Instead: " + (fix->fix.empty() ? fix->name : fix->fix);
  if (row.fixes.empty()) return "No fix is documented.";
  return "No run on record shows a fix that holds.";
}

std::string row_html(const FailureRow& row, const std::string& url) {
  std::string html =
      fmt::format(R"(<tr data-text="{}" data-name="{}" data-tags="{}"><th scope="row"><a href="{}">{}</a></th>)",
                  escape_html(searched(row)), escape_html(lower_case(row.what->id + " " + row.what->title)),
                  tags_of(*row.what), url, escape_html(row.what->title));
  for (const FailureOnRelease& on : row.releases) html += cell(on);
  return html + "</tr>\n" + notes_html(row.releases.size() + 1, note_of(row));
}

// One row for each operator, in the order of its list, newest release first; below it what to capture instead.
std::string operator_rows(const timeline::OperatorTable& table, bool is_single) {
  std::string html;
  for (const timeline::OperatorRow& row : table.rows) {
    const OperatorView view = view_of(table, row);
    html += fmt::format(
        R"(<tr id="{0}" data-text="{1}" data-name="{2}"><th scope="row"><a href="{3}"><code>{4}</code></a></th>)",
        escape_html(row.what.name), escape_html(lower_case(row.what.name + " " + row.what.call)),
        escape_html(lower_case(row.what.name.substr(row.what.name.rfind('.') + 1))),
        escape_html(is_single ? "#" + row.what.name : "operators.html?q=" + row.what.call), escape_html(row.what.call));
    for (auto word = view.words.rbegin(); word != view.words.rend(); ++word) {
      html += fmt::format(R"(<td class="c">{}</td>)", badge(word->empty() ? kNotRun : *word));
    }
    html += "</tr>\n";
    const std::string note = !view.instead.empty() ? "Instead: " + view.instead
                             : !view.why.empty()   ? "Why: " + view.why
                                                   : "No advice is known.";
    if (!view.is_captured) html += notes_html(view.words.size() + 1, note);
  }
  return html;
}

std::string operator_head(const timeline::OperatorTable& table) {
  std::string head = R"(<thead><tr><th scope="col">Operator</th>)";
  for (auto release = table.releases.rbegin(); release != table.releases.rend(); ++release) {
    head += fmt::format(R"(<th scope="col" data-release="{0}">{0}</th>)", escape_html(*release));
  }
  return head + "</tr></thead>";
}

// The content of a cell.
struct Word {
  std::string text, meaning;
  bool fails = false, is_rare = false;
};

// In a narrow window only the common words are shown; the others unfold.
std::string legend(const std::vector<Word>& words) {
  std::string items, badges;
  for (const Word& word : words) {
    items += fmt::format("<li>{} {}</li>", badge(word.text), escape_html(word.meaning));
    if (!word.is_rare) badges += badge(word.text) + " ";
  }
  return fmt::format(
      R"(<ul class="legend wide" aria-label="Legend">{0}</ul><details class="legend narrow"><summary aria-label="Legend: what the words mean">{1}</summary><ul>{0}</ul></details>
)",
      items, badges);
}

std::vector<Word> failure_words() {
  std::vector<Word> words;
  for (const FailureOutcome outcome :
       {FailureOutcome::Works, FailureOutcome::Raises, FailureOutcome::SilentlyWrong, FailureOutcome::Leaks,
        FailureOutcome::Hangs, FailureOutcome::Crashes, FailureOutcome::Warns, FailureOutcome::NotSeen,
        FailureOutcome::Absent, FailureOutcome::Unavailable, FailureOutcome::NotRun}) {
    words.push_back({std::string(to_string(outcome)), std::string(meaning(outcome)),
                     is_known(outcome) && outcome != FailureOutcome::Works,
                     !is_known(outcome) && outcome != FailureOutcome::NotRun});
  }
  return words;
}

// Those that occur in the table.
std::vector<Word> words_of_operators(const timeline::OperatorTable& table) {
  std::set<std::string> seen;
  for (const timeline::OperatorRow& row : table.rows) {
    for (const std::string& word : view_of(table, row).words) seen.insert(word.empty() ? kNotRun : word);
  }
  std::vector<Word> words;
  for (const OperatorWord& word : operator_words()) {
    const bool fails = word.color == "amber" || word.color == "red";
    if (seen.count(word.text) != 0) words.push_back({word.text, word.meaning, fails, word.color == "grey"});
  }
  if (seen.count(kNotRun) != 0) words.push_back({kNotRun, "no record has it", false, true});
  return words;
}

std::string options(const std::string& first, const std::vector<std::string>& texts) {
  std::string html = fmt::format(R"(<option value="">{}</option>)", first);
  for (const std::string& text : texts) html += fmt::format("<option>{}</option>", escape_html(text));
  return html;
}

// The search field, the choices, and the place for the search's answer. `failing` is a choice for all words that fail.
std::string controls(const std::string& placeholder, const std::vector<std::string>& releases,
                     const std::vector<Word>& words, const std::string& failing) {
  std::string tags;
  for (const Tag& tag : kTags) {
    std::vector<std::string> folded = {folded_tag(tag.name)};
    for (const std::string_view alias : tag.aliases) {
      if (!alias.empty()) folded.push_back(folded_tag(alias));
    }
    tags += fmt::format(R"(<option value="{}" label="{}" data-words="{}"></option>)", escape_html(tag.name),
                        escape_html(tag.meaning), escape_html(join(folded, "|")));
  }
  std::vector<std::string> outcomes, fails;
  for (const Word& word : words) {
    outcomes.push_back(word.text);
    if (word.fails) fails.push_back(word.text);
  }
  const std::string any =
      fmt::format(R"(any</option><option data-words="{}">{})", escape_html(join(fails, "|")), failing);
  return fmt::format(
      R"(<div class="search" role="search"><span class="text"><label for="search">Search</label><input id="search" type="search" list="tags" placeholder="{}" spellcheck="false" autocomplete="off"></span>
<span><label for="release">Release</label><select id="release">{}</select></span><span><label for="outcome">Outcome</label><select id="outcome">{}</select></span><span id="count" role="status" class="note"></span></div>
<datalist id="tags">{}</datalist>
<p id="answer" aria-live="polite"></p>
)",
      placeholder, options("all", releases), options(any, outcomes), tags);
}

// The kind of columns in a table of failures, by page.
struct Columns {
  const char* path;
  FailureColumns kind;
  const char* name;
};
constexpr std::array<Columns, 3> kColumns = {
    {{"index.html", FailureColumns::Releases, "releases"},
     {"gpus.html", FailureColumns::Gpus, "each GPU"},
     {"libraries.html", FailureColumns::Libraries, "other CUDA runtimes and NCCL"}}};

std::string url_of(const FailureRow& row, bool is_single) {
  return escape_html(is_single ? "#failure-" + row.what->id : "failures/" + row.what->id + ".html");
}

std::string table_of_failures(const FailureTable& failures, bool is_by_release, bool is_single) {
  std::map<std::string, std::string> families;
  std::string never;
  size_t without = 0;
  for (const FailureRow& row : failures.rows) {
    (row.has_known() ? families[row.what->family] : never) += row_html(row, url_of(row, is_single));
    if (!row.has_known()) ++without;
  }
  const std::string head = head_of_table("What goes wrong", failures.columns);
  std::string html = fmt::format(
      R"(<section aria-labelledby="failures"><h2 id="failures">Failures</h2><div class="scroll" tabindex="0" role="group" aria-labelledby="failures"><table data-rows="failures" data-one="failure"{}>{})",
      is_by_release ? " data-runtimes" : "", head);
  for (const auto& [family, rows] : families) {
    html += fmt::format("<tbody><tr class=\"family\"><th colspan=\"{}\" scope=\"rowgroup\">{}</th></tr>\n{}</tbody>\n",
                        failures.columns.size() + 1, escape_html(family), rows);
  }
  html += "</table></div></section>\n";
  if (without == 0) return html;
  return html +
         fmt::format(
             R"(<section data-folded><details><summary>{} without a result</summary><div class="scroll"><table data-rows="failures without a result" data-one="failure without a result">{}<tbody>{}</tbody></table></div></details></section>
)",
             plural(without, "failure"), head, never);
}

std::vector<std::string> releases_of(const FailureTable& failures) {
  std::vector<std::string> releases;
  for (const FailureColumn& column : failures.columns) add_once(releases, column.release);
  return releases;
}

std::string newest_of(const ResultMatrix& matrix) {
  std::string newest;
  for (const JudgedRun& run : matrix.records()) newest = std::max(newest, run.record.environment.started);
  return newest.substr(0, 10);
}

std::string project_links(const std::string& address) {
  if (address.empty()) return {};
  return fmt::format(
      R"( <a href="{0}">Source and documents</a>. <a href="{0}/issues/new?template=wrong-answer.yml">Report a wrong answer</a>.)",
      escape_html(address));
}

std::string index_body(const SiteInput& input, const FailureTable& failures, const Columns& columns, bool is_single) {
  std::string choice;
  for (const Columns& other : kColumns) {
    if (is_single) break;
    choice += fmt::format(R"({}<a href="{}"{}>{}</a>)", choice.empty() ? " Columns: " : ", ", other.path,
                          other.kind == columns.kind ? " aria-current=\"page\"" : "", other.name);
  }
  const bool is_by_release = columns.kind == FailureColumns::Releases;
  const std::string title =
      fmt::format("{} of PyTorch, and whether each can be captured", plural(input.operators.rows.size(), "operator"));
  return fmt::format(
             R"(<p class="lead">Does it fail in my release, and what do I write instead?{}</p>
)",
             choice) +
         controls(kPlaceholder, releases_of(failures), failure_words(), "fails") + legend(failure_words()) +
         table_of_failures(failures, is_by_release, is_single) +
         fmt::format(
             R"(<section data-folded><h2 id="operators">Operators</h2><details><summary>{}</summary><div class="scroll"><table data-rows="operators" data-one="operator">{}<tbody>{}</tbody></table></div></details></section>
<footer>Failures of CUDA graphs under PyTorch, as seen on real GPUs. Made from records of real runs, the newest of {}. A cell is the worst outcome on record in its column; "2 of 3" counts the forms of the failure that do not work. {} The page of a failure names each run.{}</footer>
)",
             title, operator_head(input.operators), operator_rows(input.operators, is_single),
             escape_html(newest_of(input.matrix)), escape_html(render_extent(input.matrix)),
             project_links(input.address));
}

constexpr char kTitle[] = "Recapture: which CUDA graph failures show in which PyTorch release";
constexpr char kDescription[] =
    "Failures of CUDA graphs under PyTorch, release by release, reproduced on real GPUs, with fixes.";

std::string operators_page(const SiteInput& input) {
  const std::vector<Word> words = words_of_operators(input.operators);
  const std::string body = fmt::format(
      R"(<p class="lead">Can it be captured in a CUDA graph? {} of PyTorch, as run on a GPU.</p>
{}{}<section aria-label="Operators"><div class="scroll" tabindex="0" role="group" aria-label="Operators"><table data-rows="operators" data-one="operator">{}<tbody>{}</tbody></table></div></section>
<footer><code>recapture operators NAME</code> has the call and the message of each refusal.</footer>
)",
      plural(input.operators.rows.size(), "operator"),
      controls("an operator: one_hot, linalg.inv …",
               {input.operators.releases.rbegin(), input.operators.releases.rend()}, words, "cannot be captured"),
      legend(words), operator_head(input.operators), operator_rows(input.operators, false));
  return render({"Recapture: which PyTorch operators can be captured in a CUDA graph",
                 "Each operator of PyTorch under CUDA graph capture, release by release.", main_of(body), "",
                 "operators.html"});
}

// "pytorch#1, pytorch#2" with links to the cited ones.
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
  for (const Deviation& change : input.changes) {
    std::vector<std::string> works, differs;
    for (const Expectation& expected : change.expectations) {
      if (case_of(expected.test) != one.id) continue;
      add_once(expected.result == Result::Healthy ? works : differs,
               expected.where.release.empty() ? "all releases" : expected.where.release);
    }
    if (works.empty() && differs.empty()) continue;
    std::vector<std::string> where;
    if (!works.empty()) where.push_back("works in " + join(works, "; "));
    if (!differs.empty()) where.push_back("differs from the documents in " + join(differs, "; "));
    items += fmt::format("<li>{}{}: {}. <span class=\"note\">On record: {}.</span></li>\n",
                         numbers_html(input, change.number),
                         change.since.empty() ? "" : escape_html(", since " + change.since),
                         escape_html(change.what.empty() ? "a change" : change.what), escape_html(join(where, "; ")));
  }
  return items.empty() ? "" : "<h3>What changed upstream</h3>\n<ul>\n" + items + "</ul>\n";
}

// For the newest release with a price.
std::string price_html(const SiteInput& input, const std::string& test) {
  std::string html;
  for (auto prices = input.prices.rbegin(); prices != input.prices.rend(); ++prices) {
    if (!html.empty()) break;
    for (const PriceLine* line : prices_of(*prices, test)) {
      html += fmt::format("<p class=\"note\">Costs on {}, {}: {}.</p>\n", escape_html(prices->machine()),
                          escape_html(line->what), escape_html(describe(*line)));
    }
  }
  return html;
}

std::string fixes_html(const SiteInput& input, const FailureRow& row, const std::string& source) {
  std::string html;
  for (const FixCourse& fix : row.fixes) {
    const CatalogueTest& test = *fix.what;
    html += fmt::format("<h3>{}</h3>\n", escape_html(test.fix.empty() ? test.name : test.fix));
    std::vector<std::string> course;
    if (!fix.holds.empty()) course.push_back("Holds in " + join(fix.holds) + ".");
    if (!fix.not_needed.empty()) course.push_back("Not needed in " + join(fix.not_needed) + ".");
    if (!fix.broken.empty()) course.push_back("Does not hold in " + join(fix.broken) + ".");
    if (course.empty()) course.emplace_back("No run on record shows that it holds.");
    html += fmt::format("<p class=\"note\">{}</p>\n{}", escape_html(join(course, " ")),
                        price_html(input, row.what->id + "." + test.name));
    if (const std::string code = body_of(source, test.name); !code.empty()) {
      html += fmt::format(
          "<details><summary>Code that works</summary><pre tabindex=\"0\"><code>{}</code></pre></details>\n",
          lines_html(code));
    }
  }
  return "<h2>What works instead</h2>\n" + (html.empty() ? "<p>No fix is documented.</p>\n" : html);
}

// The GPUs and drivers on which it failed, with the releases: "NVIDIA H200, driver 580.159.04 (2.1.2 to …)".
std::string seen_html(const FailureRow& row) {
  std::map<std::string, std::vector<std::string>> by_machine;
  for (auto on = row.releases.rbegin(); on != row.releases.rend(); ++on) {
    for (const FailureForm& form : on->forms) {
      if (!is_known(form.outcome) || form.outcome == FailureOutcome::Works) continue;
      const MachineId machine = form.judged->record.environment.machine;
      add_once(by_machine[label(machine, {.driver = true})], on->column.release);
    }
  }
  std::string items;
  for (const auto& [machine, releases] : by_machine) {
    items += fmt::format("<li>{}: {}</li>\n", escape_html(machine), escape_html(join(releases)));
  }
  return items.empty() ? "" : "<h3>Seen on</h3>\n<ul>\n" + items + "</ul>\n";
}

// "2.6 s, 8 at once"
std::string time_of(const FailureForm& form) {
  if (!form.row->ran || form.row->seconds == 0) return "";
  return render_seconds(form.row->seconds) + at_once(width_of(form.judged->record, form.row->case_id));
}

std::string runs_html(const SiteInput& input, const FailureRow& row) {
  std::string rows;
  for (const FailureOnRelease& on : row.releases) {
    for (const FailureForm& form : on.forms) {
      const Record& record = form.judged->record;
      const std::string gpu = record.env("gpu"), driver = record.env("driver");
      rows += fmt::format(
          "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td class=\"mono\">{}</td><td>{}</td><td "
          "class=\"mono\">{}</td></tr>\n",
          escape_html(on.column.release), escape_html(form.row->name),
          escape_html(gpu.empty() ? "no GPU" : fmt::format("{}, driver {}", gpu, driver)), badge(form.outcome),
          escape_html(truncated(render_observed(*form.row))), time_of(form),
          escape_html(fs::path(record.path).lexically_relative(input.records).string()));
    }
  }
  if (rows.empty()) return "<p>No record has it.</p>\n";
  return R"(<details><summary>Each run on record</summary><div class="table" tabindex="0" role="group" aria-label="Each run on record"><table><thead><tr><th scope="col">Release</th><th scope="col">Test</th><th scope="col">GPU</th><th scope="col">Outcome</th><th scope="col">Seen</th><th scope="col">Took</th><th scope="col">Record</th></tr></thead><tbody>
)" + rows +
         "</tbody></table></div></details>\n";
}

std::string failure_body(const SiteInput& input, const FailureRow& row) {
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
    body += fmt::format("<li>{}{}</li>", escape_html(on.column.release), badge(on.worst));
  }
  std::string course = course_of(row);
  course.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(course.front())));
  body += fmt::format("</ul>\n<p>{}.</p>\n", escape_html(course));
  body += changes_html(input, one);
  const auto messages = messages_of(row);
  body += "<h2>The error</h2>\n<pre class=\"wraps\">" + escape_html(one.documented) + "</pre>\n";
  std::string others;
  for (const std::string& message : messages) {
    (&message == &messages.front() ? body : others) +=
        "<pre class=\"wraps\">" + lines_html(message.substr(0, message.find_last_not_of(" \n") + 1)) + "</pre>\n";
  }
  if (!others.empty()) {
    body += fmt::format("<details><summary>{} on record</summary>{}</details>\n",
                        plural(messages.size() - 1, "other text"), others);
  }
  for (const CatalogueTest& test : one.tests) {
    if (test.kind != Kind::Reproduces) continue;
    const std::string code = body_of(source, test.name);
    if (code.empty()) continue;
    body += "<h2>Code that fails</h2>\n<pre tabindex=\"0\"><code>" + lines_html(code) + "</code></pre>\n";
    break;
  }
  body += fixes_html(input, row, source);
  body += "<h2>On record</h2>\n" + seen_html(row) + runs_html(input, row);
  std::string cites;
  for (const Json& cited : one.sources) {
    const std::string id = cited_id(cited), heading = cited.at("heading");
    const CitedSource* known = find_source(input.sources, id);
    cites += fmt::format("<li>{}{}</li>\n", known == nullptr ? escape_html(id) : link(known->url, known->title),
                         id == heading ? "" : escape_html(", " + heading));
  }
  body += "<h2>Described in</h2>\n<ul>\n" + cites + "</ul>\n";
  body += fmt::format(
      "<footer>Case <code>{}</code>, family {}, {}. <code>recapture show {} --all</code> has each stack, rate and "
      "price; the "
      "case is <code>{}</code>.</footer>\n",
      escape_html(one.id), escape_html(one.family), to_string(one.nature), escape_html(one.id), escape_html(path));
  return body;
}

}  // namespace

std::map<std::string, std::string> render_site(const SiteInput& input) {
  std::map<std::string, std::string> pages = {{"operators.html", operators_page(input)}};
  for (const Columns& columns : kColumns) {
    const FailureTable failures = failure_table(input.matrix, input.catalogue, columns.kind);
    pages[columns.path] =
        render({kTitle, kDescription, main_of(index_body(input, failures, columns, false)), "", "index.html"});
    if (columns.kind != FailureColumns::Releases) continue;
    for (const FailureRow& row : failures.rows) {
      const CatalogueCase& one = *row.what;
      pages["failures/" + one.id + ".html"] =
          render({one.title + " – Recapture", one.why.substr(0, one.why.find("\n\n")),
                  main_of(failure_body(input, row)), "../", "", "page"});
    }
  }
  return pages;
}

std::string render_single_file(const SiteInput& input) {
  const FailureTable failures = failure_table(input.matrix, input.catalogue);
  std::string body = main_of(index_body(input, failures, kColumns.front(), true));
  for (const FailureRow& row : failures.rows) {
    body += fmt::format("<article id=\"failure-{}\" class=\"page\">\n{}</article>\n", escape_html(row.what->id),
                        failure_body(input, row));
  }
  return render({kTitle, kDescription, body, "", "index.html", "single", true});
}

std::string render_site_links() {
  std::string links;
  for (const auto& [path, name] : kPages) {
    if (path != std::string(kUpgradePage)) links += fmt::format(R"(<a href="{}">{}</a> )", path, name);
  }
  return fmt::format(R"(<nav id="site" aria-label="Site">{}</nav>)", links);
}

}  // namespace recapture::report
