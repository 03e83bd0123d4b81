#include "harness/report/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "harness/base/embed.h"
#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/letter_case.h"
#include "harness/base/lines.h"
#include "harness/base/text.h"
#include "harness/case/tags.h"
#include "harness/model/program.h"
#include "harness/model/release.h"
#include "harness/report/case_summary.h"
#include "harness/report/case_view.h"
#include "harness/report/extent.h"
#include "harness/report/fix_code.h"
#include "harness/report/operators.h"
#include "harness/report/site_search.h"
#include "harness/store/machine_runs.h"
#include "harness/timeline/failures.h"
#include "harness/verdict/duration.h"
#include "harness/verdict/price.h"
#include "harness/words/measurement.h"
#include "harness/words/observation.h"

// The site's sources are embedded. CMake rebuilds this file when one of them changes.
RECAPTURE_EMBED(site_every_page_css, "harness/report/every_page.css");
RECAPTURE_EMBED(site_css, "harness/report/site.css");
RECAPTURE_EMBED(site_js, "harness/report/site.js");
RECAPTURE_EMBED(site_every_page_js, "harness/report/every_page.js");
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

struct NavPage {
  const char *path, *name;
};
constexpr std::array<NavPage, 5> kPages = {{{"index.html", "Failures"},
                                            {"operators.html", "Operators"},
                                            {kUpgradePage, "Upgrade"},
                                            {"upgrade.html#matrix", "All results"},
                                            {"upgrade.html#history", "History"}}};
constexpr char kMetPage[] = "met.html", kAboutPage[] = "about.html";
constexpr char kPlaceholder[] = "an error text, a call, an operator, a feature, two releases";
constexpr size_t kMostMet = 12;

// JSON in a page's text. It needs no < outside its strings.
std::string data_html(const Json& data) {
  std::string text;
  for (const char c : to_text(data)) text += c == '<' ? "\\u003c" : std::string(1, c);
  return "<script type=\"application/json\" id=\"data\">" + text + "</script>\n";
}

// A page of the site, or the single page with all of it.
struct Document {
  std::string title, description;
  std::string body;
  std::string up = {};       // From the page's folder to the site's.
  std::string current = {};  // Of kPages.
  std::string css_class = {};
  bool is_single = false;
  Json data = nullptr;  // For the search; nullptr on a page whose search field leads to the first page.
};

std::string search_field(const std::string& leads, const std::string& placeholder) {
  return fmt::format(
      R"(<div class="search" role="search"><label for="search">Search</label><input id="search" type="search"{} placeholder="{}" spellcheck="false" autocomplete="off" autocapitalize="off"></div>)",
      leads.empty() ? " list=\"tags\"" : fmt::format(R"( data-leads="{}")", leads), placeholder);
}

std::string render(const Document& page) {
  std::string nav;
  for (const auto& [path, name] : kPages) {
    const bool is_here = page.is_single && (path == std::string("index.html") || path == std::string("operators.html"));
    if (page.is_single && !is_here) continue;
    const std::string to = !page.is_single ? page.up + path : path == std::string("index.html") ? "#" : "#operators";
    nav += fmt::format(R"(<a href="{}"{}>{}</a>)", to, page.current == path ? " aria-current=\"page\"" : "", name);
  }
  const bool has_search = !page.data.is_null();
  const std::string search = has_search ? "" : search_field(page.up + "index.html", kPlaceholder);
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
{}{}</style>
</head>
<body class="{}" data-upgrade="{}">
<a class="skip" href="#main">To the content</a>
<header><a class="brand" href="{}">Recapture</a><nav aria-label="Site">{}</nav>{}</header>
{}{}<script>
{}{}{}</script>
</body>
</html>
)",
      escape_html(page.description), escape_html(page.title), site_every_page_css, site_css, page.css_class,
      page.is_single ? "" : page.up + kUpgradePage, page.is_single ? "#" : page.up + "index.html", nav, search,
      page.body, has_search ? data_html(page.data) : "", site_every_page_js, has_search ? site_words_js : "",
      has_search ? site_js : "");
}

std::string main_of(const std::string& body) { return "<main id=\"main\">\n" + body + "</main>\n"; }

// Oldest release first, by ranges of releases with one outcome.
std::string course_of(const FailureRow& row) {
  std::vector<std::pair<std::string, FailureOutcome>> by_release;
  for (auto on = row.releases.rbegin(); on != row.releases.rend(); ++on) {
    by_release.emplace_back(on->column.release, on->worst);
  }
  const std::string course = render_course(by_release);
  return course.empty() ? "no record has it" : course;
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
  for (const Json& source : one.sources) {
    if (source.at("document") == "upstream") text += " " + source.at("heading").get<std::string>();
  }
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

// Numbers of kTags.
std::string tags_of(const CatalogueCase& one) {
  std::vector<std::string> numbers;
  for (const std::string& name : one.tags) {
    if (const Tag* tag = tag_of(name)) numbers.push_back(std::to_string(tag - kTags.data()));
  }
  return join(numbers, ",");
}

// The note below a row: what to use instead.
std::string note_of(const FailureRow& row) {
  if (const CatalogueTest* fix = row.instead(); fix != nullptr)
    return "Instead: " + (fix->fix.empty() ? fix->name : fix->fix);
  if (row.fixes.empty()) return "No fix is documented.";
  return "No run on record shows a fix that holds.";
}

// The content of a cell.
struct Word {
  std::string text, meaning;
  bool fails = false;
};

std::string legend(const std::vector<Word>& words) {
  std::string items;
  for (const Word& word : words) items += fmt::format("<li>{} {}</li>", badge(word.text), escape_html(word.meaning));
  return fmt::format("<details class=\"legend\"><summary>What the words mean</summary><ul>{}</ul></details>\n", items);
}

std::vector<Word> failure_words() {
  std::vector<Word> words;
  for (const FailureOutcome outcome :
       {FailureOutcome::Works, FailureOutcome::Raises, FailureOutcome::SilentlyWrong, FailureOutcome::Leaks,
        FailureOutcome::Hangs, FailureOutcome::Crashes, FailureOutcome::Warns, FailureOutcome::NotSeen,
        FailureOutcome::Absent, FailureOutcome::Unavailable, FailureOutcome::NotRun}) {
    words.push_back({std::string(to_string(outcome)), std::string(meaning(outcome)),
                     is_known(outcome) && outcome != FailureOutcome::Works});
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
    if (seen.count(word.text) != 0) words.push_back({word.text, word.meaning, fails});
  }
  if (seen.count(kNotRun) != 0) words.push_back({kNotRun, "no record has it", false});
  return words;
}

std::string options(const std::string& first, const std::vector<std::string>& texts) {
  std::string html = fmt::format(R"(<option value="">{}</option>)", first);
  for (const std::string& text : texts) html += fmt::format("<option>{}</option>", escape_html(text));
  return html;
}

// The choices beside the search, and what it offers. `failing` is a choice for all words that fail.
std::string filters(const std::vector<std::string>& releases, const std::vector<Word>& words,
                    const std::string& failing) {
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
      R"(<div class="filters"><span><label for="release">Release</label><select id="release">{}</select></span> <span><label for="outcome">Outcome</label><select id="outcome">{}</select></span> <span id="count" role="status" class="note"></span></div>
<datalist id="tags">{}</datalist>
)",
      options("all", releases), options(any, outcomes), tags);
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

// ---- Ranges of releases ----

// What stands for one column.
struct Cell {
  std::string word, note;
  bool operator==(const Cell&) const = default;
};

// "silently wrong" with "1 of 5 tests; the others: raises": the worst of a failure's tests, said as such.
Cell cell_of(const FailureOnRelease& on) {
  std::map<std::string, FailureOutcome> by_test;  // On any machine the worst.
  for (const FailureForm& form : on.forms) {
    if (!is_known(form.outcome)) continue;
    const auto [at, is_new] = by_test.emplace(form.row->test, form.outcome);
    if (!is_new) at->second = std::max(at->second, form.outcome);
  }
  size_t worst = 0;
  FailureOutcome other = FailureOutcome::Works;
  for (const auto& [test, outcome] : by_test) {
    if (outcome == on.worst) {
      ++worst;
    } else {
      other = std::max(other, outcome);
    }
  }
  Cell cell = {std::string(to_string(on.worst)), ""};
  if (is_known(on.worst) && worst < by_test.size()) {
    cell.note = fmt::format("in {} of {}; else {}", worst, plural(by_test.size(), "test"), to_string(other));
  }
  return cell;
}

// Columns from `first` to `last` that have the same content, the newest first.
struct Range {
  size_t first, last;
  Cell cell;
};
std::vector<Range> ranges_of(const std::vector<Cell>& cells, const std::vector<size_t>& places) {
  std::vector<Range> ranges;
  for (const size_t place : places) {
    const Cell& cell = cells.at(place);
    if (ranges.empty() || !(ranges.back().cell == cell)) {
      ranges.push_back({place, place, cell});
    } else {
      ranges.back().last = place;
    }
  }
  return ranges;
}

// "2.1.2 to 2.15.0" of releases of which the newest comes first.
std::string between(const std::string& newest, const std::string& oldest) {
  return newest == oldest ? newest : oldest + " to " + newest;
}

// A list of ranges, the newest first. Where there is no record, nothing stands.
std::string ranges_html(const std::vector<Range>& ranges, const std::vector<std::string>& releases) {
  std::string items;
  const auto is_empty = [](const Range& range) { return range.cell.word == kNotRun; };
  const bool is_never = std::ranges::all_of(ranges, is_empty);
  for (const Range& range : ranges) {
    if (is_empty(range) && !is_never) continue;
    items += fmt::format(
        R"(<li data-from="{}" data-to="{}">{} <span class="when">{}</span>{}</li>)", range.first, range.last,
        badge(range.cell.word), escape_html(between(releases.at(range.first), releases.at(range.last))),
        range.cell.note.empty() ? ""
                                : fmt::format(R"( <span class="note part">{}</span>)", escape_html(range.cell.note)));
  }
  return fmt::format("<ul class=\"ranges\">{}</ul>", items);
}

// By release; of other columns, by their detail.
std::string ranges_html(const FailureRow& row, bool is_by_release) {
  std::vector<Cell> cells;
  std::vector<std::string> releases;
  std::vector<std::pair<std::string, std::vector<size_t>>> groups;
  for (const FailureOnRelease& on : row.releases) {
    const std::string detail = is_by_release ? "" : on.column.detail;
    auto group = std::ranges::find(groups, detail, [](const auto& one) { return one.first; });
    if (group == groups.end()) group = groups.insert(group, {detail, {}});
    group->second.push_back(cells.size());
    cells.push_back(cell_of(on));
    releases.push_back(on.column.release);
  }
  std::string html;
  for (const auto& [detail, places] : groups) {
    const auto ranges = ranges_of(cells, places);
    const bool is_empty = ranges.size() == 1 && ranges.front().cell.word == kNotRun;
    if (is_empty && groups.size() > 1) continue;
    html += (detail.empty() ? "" : fmt::format("<div class=\"group\">{}</div>", escape_html(detail))) +
            ranges_html(ranges, releases);
  }
  return html.empty() ? badge(kNotRun) : html;
}

// A letter for the word of each column, for the choices of release and outcome.
std::string letters_of(const FailureRow& row) {
  std::string letters;
  for (const FailureOnRelease& on : row.releases) {
    letters += static_cast<char>('a' + static_cast<int>(on.worst));
  }
  return letters;
}

// ---- The table of failures ----

std::string url_of(const FailureRow& row, bool is_single) {
  return escape_html(url_of_failure(row.what->id, is_single));
}

// The outcome in the newest release that has one.
FailureOutcome newest_outcome(const FailureRow& row) {
  for (const FailureOnRelease& on : row.releases) {
    if (is_known(on.worst)) return on.worst;
  }
  return FailureOutcome::NotRun;
}

int severity_of(const FailureRow& row) {
  const FailureOutcome newest = newest_outcome(row);
  return is_known(newest) ? static_cast<int>(newest) : -1;
}

std::string row_html(const SiteInput& input, const FailureRow& row, bool is_by_release, bool is_single) {
  const size_t met = input.met.of(row.what->id);
  return fmt::format(
      R"(<tr data-text="{}" data-name="{}" data-id="{}" data-tags="{}" data-words="{}" data-met="{}" data-severity="{}"><th scope="row"><a href="{}">{}</a><div class="note">{}</div></th><td>{}</td><td class="n">{}</td></tr>
)",
      escape_html(searched(row)), escape_html(lower_case(row.what->id + " " + row.what->title)),
      escape_html(row.what->id), tags_of(*row.what), letters_of(row), met, severity_of(row), url_of(row, is_single),
      escape_html(row.what->title), escape_html(note_of(row)), ranges_html(row, is_by_release),
      met == 0 ? "" : std::to_string(met));
}

// How often people meet it, then how bad it is.
std::vector<const FailureRow*> in_order(const SiteInput& input, const FailureTable& failures) {
  std::vector<const FailureRow*> rows;
  for (const FailureRow& row : failures.rows) rows.push_back(&row);
  std::ranges::stable_sort(rows, [&](const FailureRow* a, const FailureRow* b) {
    const auto key = [&](const FailureRow& row) {
      return std::tuple(row.has_known(), input.met.of(row.what->id), severity_of(row));
    };
    return key(*a) > key(*b);
  });
  return rows;
}

std::string table_of_failures(const SiteInput& input, const FailureTable& failures, bool is_by_release,
                              bool is_single) {
  std::string rows;
  for (const FailureRow* row : in_order(input, failures)) rows += row_html(input, *row, is_by_release, is_single);
  return fmt::format(
      R"(<section aria-labelledby="failures"><h2 id="failures">All failures</h2><table data-rows="failures" data-one="failure"><thead><tr><th scope="col">What goes wrong</th><th scope="col">{}</th><th scope="col" class="n">{}</th></tr></thead><tbody>
{}</tbody></table></section>
)",
      is_by_release ? "In which releases" : "Where, and in which releases",
      is_single ? "Met" : fmt::format(R"(<a href="{}">Met</a>)", kMetPage), rows);
}

std::vector<std::string> releases_of(const FailureTable& failures) {
  std::vector<std::string> releases;
  for (const FailureColumn& column : failures.columns) add_once(releases, column.release);
  return releases;
}

// "2.15.0 on NVIDIA H200, 2026-11-30"
std::string newest_of(const ResultMatrix& matrix) {
  const auto& runs = matrix.records();
  const auto newest = std::ranges::max_element(runs, began_before);
  if (newest == runs.end()) return "none";
  const Record& record = newest->record;
  const std::string gpu = record.env("gpu");
  return fmt::format("{} {}, {}", record.env("release"), gpu.empty() ? "without a GPU" : "on " + gpu,
                     record.environment.started.substr(0, 10));
}

// Where nothing is published, a page of the site has what these links lead to. `up` leads to the site's folder; "#" is
// the single file, which has no such page.
std::string project_links(const std::string& address, const std::string& up) {
  if (address.empty() && up == "#") return {};
  if (address.empty()) {
    return fmt::format(
        R"( <a href="{0}#install">Install</a>, <a href="{0}#documents">documents</a>, <a href="{0}#source">source</a>, <a href="{0}#wrong">report a wrong answer</a>.)",
        up + kAboutPage);
  }
  return fmt::format(
      R"( <a href="{0}/blob/main/docs/install.md">Install</a>, <a href="{0}/tree/main/docs">documents</a>, <a href="{0}">source</a>, <a href="{0}/issues/new?template=wrong-answer.yml">report a wrong answer</a>.)",
      escape_html(address));
}

// "NVIDIA H100" of "NVIDIA H100 80GB HBM3"; the footer has the whole names.
std::set<std::string> gpus_of(const ResultMatrix& matrix) {
  std::set<std::string> gpus;
  for (const JudgedRun& run : matrix.records()) {
    std::string gpu = run.record.env("gpu");
    const size_t memory = gpu.find("GB");
    if (memory != std::string::npos && memory > 0 && std::isdigit(static_cast<unsigned char>(gpu[memory - 1])) != 0) {
      gpu.erase(std::min(gpu.rfind(' ', memory), memory));
    }
    if (!gpu.empty()) gpus.insert(gpu);
  }
  return gpus;
}

// The causes that most threads are about, with what is on record of them.
std::string most_met(const SiteInput& input, const FailureTable& failures, bool is_single) {
  std::vector<const explain::Cause*> causes;
  for (const explain::Cause& cause : input.causes) {
    if (input.met.of(cause.id) > 0) causes.push_back(&cause);
  }
  std::ranges::stable_sort(causes, [&](const explain::Cause* a, const explain::Cause* b) {
    return input.met.of(a->id) > input.met.of(b->id);
  });
  if (causes.size() > kMostMet) causes.resize(kMostMet);
  std::string items;
  for (const explain::Cause* cause : causes) {
    const auto row = std::ranges::find(failures.rows, cause->id, [](const FailureRow& one) { return one.what->id; });
    items += fmt::format(R"(<li><a href="{}" title="{}">{}</a> {}<span class="n">{}</span></li>)",
                         escape_html(url_of_failure(cause->id, is_single)), escape_html(cause->title),
                         escape_html(cause->title), row == failures.rows.end() ? "" : badge(newest_outcome(*row)),
                         input.met.of(cause->id));
  }
  if (items.empty()) return "";
  const std::string how = fmt::format("in {} threads", input.met.with_cause);
  return fmt::format(
      R"(<section class="most" aria-labelledby="most"><h2 id="most">What people meet most <span class="note">{}</span></h2><ol>{}</ol></section>
)",
      is_single ? how : fmt::format(R"(<a href="{}">{}</a>)", kMetPage, how), items);
}

// What a reader comes for, and where it is answered.
std::string tasks(bool is_single) {
  if (is_single) return "";
  return fmt::format(
      R"(<ul class="tasks" aria-label="What do you have?"><li><a href="#search">An error text</a></li><li><a href="operators.html">An operator</a></li><li><a href="{}">An upgrade</a></li><li><a href="#run">Run it</a></li></ul>
)",
      kUpgradePage);
}

// The newest upgrade, as a sentence that leads to it.
std::string newest_upgrade(const std::vector<std::string>& releases, bool is_single) {
  if (is_single || releases.size() < 2) return "";
  return fmt::format(R"( <a href="{0}#compare/{1}/{2}">What {1} to {2} changes</a>.)", kUpgradePage,
                     escape_html(releases[1]), escape_html(releases[0]));
}

constexpr char kRun[] =
    R"(<section aria-labelledby="run"><h2 id="run">Run it</h2><dl class="run">
<dt><code>recapture blame -- python train.py</code></dt><dd>names the call that broke a capture in your program</dd>
<dt><code>recapture check train:step</code></dt><dd>compares a function, eager and as a graph</dd>
<dt><code>recapture explain error.txt</code></dt><dd>the cause of a pasted message or log</dd>
<dt><code>recapture gate 2.9 2.13 -- python train.py</code></dt><dd>whether an upgrade breaks what the program uses</dd>
<dt><code>recapture run</code></dt><dd>runs the cases on your GPU, with your driver and release</dd>
</dl></section>
)";

std::string index_body(const SiteInput& input, const FailureTable& failures, const Columns& columns, bool is_single) {
  std::string choice;
  for (const Columns& other : kColumns) {
    if (is_single) break;
    choice += fmt::format(R"({}<a href="{}"{}>{}</a>)", choice.empty() ? "By " : ", ", other.path,
                          other.kind == columns.kind ? " aria-current=\"page\"" : "", other.name);
  }
  const bool is_by_release = columns.kind == FailureColumns::Releases;
  const auto releases = releases_of(failures);
  std::string gpus = join(gpus_of(input.matrix), " and ");
  const std::string what = fmt::format(
      "{} documented ways in which CUDA graphs break programs on PyTorch, run {}with {}{}: the error, the releases, "
      "the "
      "fix.",
      failures.rows.size(), gpus.empty() ? "" : fmt::format("on {} ", gpus), plural(releases.size(), "PyTorch release"),
      releases.empty() ? "" : fmt::format(", {}", between(releases.front(), releases.back())));
  std::string body = fmt::format(
      R"(<h1>Which CUDA graph failure is it, and what do I write instead?</h1>
<p class="lead">{}</p>
{}
<div id="answer" aria-live="polite"></div>
)",
      escape_html(what), search_field("", kPlaceholder));
  if (is_by_release) {
    body += fmt::format(
        R"(<div id="first">
{}{}<p class="note facts">Newest record: {}.{}{}</p>
</div>
)",
        tasks(is_single), most_met(input, failures, is_single), escape_html(newest_of(input.matrix)),
        newest_upgrade(releases, is_single), project_links(input.address, is_single ? "#" : ""));
  }
  body += filters(releases, failure_words(), "fails") +
          fmt::format("<div class=\"beside\"><span>{}</span>{}</div>\n", choice, legend(failure_words())) +
          table_of_failures(input, failures, is_by_release, is_single);
  return body;
}

std::string footer_of(const SiteInput& input, bool is_single) {
  return fmt::format(
      "<footer>Made from records of real runs, the newest: {}. An outcome is the worst on record there; \"in 1 of 5 "
      "tests\" counts the tests of the failure that show it. {} The page of a failure names each run.{}</footer>\n",
      escape_html(newest_of(input.matrix)), escape_html(render_extent(input.matrix)),
      project_links(input.address, is_single ? "#" : ""));
}

constexpr char kTitle[] = "Recapture: which CUDA graph failures show in which PyTorch release";
constexpr char kDescription[] =
    "Failures of CUDA graphs under PyTorch, release by release, reproduced on real GPUs, with fixes.";

Json words_data(const std::vector<std::string>& words) { return {{"outcomes", words}}; }

// ---- Operators ----

std::vector<std::string> newest_first(const timeline::OperatorTable& table) {
  return {table.releases.rbegin(), table.releases.rend()};
}

constexpr char kStaysRight[] = "stays right", kWrongLater[] = "wrong later";

// By release, whether a captured operator stays right after what programs do between two replays.
std::string later_cell(const timeline::OperatorTable& table, const timeline::OperatorRow& row) {
  const std::vector<std::string> releases = newest_first(table);
  std::vector<Cell> cells;
  std::vector<size_t> places;
  for (const std::string& release : releases) {
    const auto on = std::ranges::find(row.releases, release, &timeline::OperatorOnRelease::release);
    places.push_back(cells.size());
    if (on == row.releases.end() || !on->later) {
      cells.push_back({kNotRun, ""});
    } else if (on->later->wrong.empty()) {
      cells.push_back({kStaysRight, ""});
    } else {
      cells.push_back({kWrongLater, "after " + escape_control(join(on->later->wrong))});
    }
  }
  const bool is_asked = std::ranges::any_of(cells, [](const Cell& cell) { return cell.word != kNotRun; });
  return is_asked ? ranges_html(ranges_of(cells, places), releases) : "not measured";
}

// What a case shows of operators that can be captured and do not stay right.
std::string known_later(const timeline::OperatorRow& row, bool is_single) {
  const KnownOfOperator& known = row.known_later;
  if (known.case_id.empty()) return "";
  return fmt::format("<div class=\"note\"><strong>Not right later</strong>: {} ({}).</div>", escape_html(known.why),
                     link(url_of_failure(known.case_id, is_single), "what happens, and where"));
}

bool is_wrong_later(const timeline::OperatorRow& row) {
  return !row.known_later.case_id.empty() ||
         std::ranges::any_of(row.releases, [](const auto& on) { return on.later && !on.later->wrong.empty(); });
}

// One row for each operator, first those that some release cannot capture, then those that do not stay right: where it
// can be captured, and what to capture instead.
std::string operator_rows(const timeline::OperatorTable& table, const std::vector<Word>& words, bool is_single) {
  const bool has_later = table.has_later();
  const std::vector<std::string> releases = newest_first(table);
  std::array<std::string, 3> parts;
  for (const timeline::OperatorRow& row : table.rows) {
    const OperatorView view = view_of(table, row);
    std::string& html = parts.at(!view.is_captured ? 0 : is_wrong_later(row) ? 1 : 2);
    std::vector<Cell> cells;
    std::vector<size_t> places;
    std::string letters;
    for (size_t i = view.words.size(); i-- > 0;) {
      places.push_back(cells.size());
      const std::string word = view.words[i].empty() ? kNotRun : view.words[i];
      cells.push_back({word, view.phrases[i] == view.words[i] ? "" : view.phrases[i]});
      const auto at = std::ranges::find(words, word, &Word::text);
      letters += static_cast<char>('a' + (at - words.begin()));
    }
    const std::string note = !view.instead.empty() ? "Instead: " + view.instead
                             : !view.why.empty()   ? "Why: " + view.why
                                                   : "No advice is known.";
    html += fmt::format(
        R"(<tr id="{0}" data-text="{1}" data-name="{2}" data-words="{3}"><th scope="row"><a href="{4}"><code>{5}</code></a>{6}{7}{8}</th><td>{9}</td>{10}</tr>
)",
        escape_html(row.what.name), escape_html(lower_case(row.what.name + " " + row.what.call)),
        escape_html(lower_case(row.what.name + " " + row.what.call)), letters,
        escape_html(is_single ? "#" + row.what.name : "operators.html?q=" + row.what.call), escape_html(row.what.call),
        view.is_captured ? "" : fmt::format("<div class=\"note\">{}</div>", escape_html(note)),
        known_later(row, is_single),
        view.is_captured || is_single
            ? ""
            : fmt::format("<details><summary>each form</summary><pre tabindex=\"0\">{}</pre></details>",
                          lines_html(render_text(row))),
        ranges_html(ranges_of(cells, places), releases),
        has_later ? fmt::format("<td data-side=\"later\">{}</td>", later_cell(table, row)) : "");
  }
  return parts[0] + parts[1] + parts[2];
}

std::string operators_table(const timeline::OperatorTable& table, const std::vector<Word>& words, bool is_single) {
  return fmt::format(
      R"(<table data-rows="operators" data-one="operator"><thead><tr><th scope="col">Operator</th><th scope="col">In which releases</th>{}</tr></thead><tbody>
{}</tbody></table>
)",
      table.has_later() ? "<th scope=\"col\">Stays right afterwards</th>" : "", operator_rows(table, words, is_single));
}

std::vector<std::string> texts_of(const std::vector<Word>& words) {
  std::vector<std::string> texts;
  for (const Word& word : words) texts.push_back(word.text);
  return texts;
}

// Whether a captured operator stays right afterwards: what no record asks is said to be not measured.
std::string later_words(const SiteInput& input) {
  std::map<std::string, std::vector<std::string>> known;  // Calls by case.
  for (const timeline::OperatorRow& row : input.operators.rows) {
    if (!row.known_later.case_id.empty()) add_once(known[row.known_later.case_id], row.what.call);
  }
  std::string words = "<strong>Stays right afterwards?</strong> ";
  words += input.operators.has_later()
               ? "The last column has what was measured: other work between two replays, and what frees memory."
               : "Whether the graph of a captured operator stays right after other work between its replays is not "
                 "measured.";
  for (const auto& [id, calls] : known) {
    const CatalogueCase* one = find_case(input.catalogue, id);
    words += fmt::format(" Known: {} ({}).", link(url_of_failure(id, false), one == nullptr ? id : one->title),
                         plural(calls.size(), "operator"));
  }
  return "<p class=\"lead\">" + words + "</p>";
}

std::string operators_page(const SiteInput& input) {
  const std::vector<Word> words = words_of_operators(input.operators);
  const std::vector<std::string> releases = newest_first(input.operators);
  const std::string body = fmt::format(
      R"(<h1>Can the operator be captured in a CUDA graph?</h1>
<p class="lead">{} of PyTorch, each run in a capture with {}.</p>
{}
{}
<div id="answer" aria-live="polite"></div>
{}{}<section aria-labelledby="operators"><h2 id="operators">Operators</h2>{}</section>
<footer><code>recapture operators NAME</code> has the call and the message of each refusal.{}</footer>
)",
      plural(input.operators.rows.size(), "operator"), plural(releases.size(), "release"), later_words(input),
      search_field("", "an operator by any of its names: F.one_hot, torch.linalg.inv, aten.nonzero"),
      filters(releases, words, "cannot be captured"), legend(words), operators_table(input.operators, words, false),
      project_links(input.address, ""));
  Json data = words_data(texts_of(words));
  data["columns"] = Json::array();
  for (const std::string& release : releases) data["columns"].push_back({release, ""});
  return render({"Recapture: which PyTorch operators can be captured in a CUDA graph",
                 "Each operator of PyTorch under CUDA graph capture, release by release.", main_of(body), "",
                 "operators.html", "", false, data});
}

// ---- A failure's page ----

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
    const auto changes = [&](const CatalogueTest& test) {
      return std::ranges::any_of(
          change.expectations, [&](const Expectation& expected) { return expected.test == one.id + "." + test.name; });
    };
    // Of several tests, a change of some is none of the others.
    const bool is_of_all = std::ranges::all_of(
        one.tests, [&](const CatalogueTest& test) { return test.kind != Kind::Reproduces || changes(test); });
    for (const Expectation& expected : change.expectations) {
      if (case_of(expected.test) != one.id) continue;
      add_once(expected.result == Result::Healthy ? works : differs,
               (expected.where.release.empty() ? "all releases" : expected.where.release) +
                   (is_of_all ? "" : fmt::format(" ({})", name_of(expected.test))));
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

std::string program_of(const SiteInput& input, const CatalogueCase& one) {
  const std::string path = fmt::format("{}/cases/{}/{}.py", input.root, one.family, one.id);
  std::error_code error;
  return fs::is_regular_file(path, error) ? contents_of(path) : "";
}

// Whether a code has these words, not as the end of a longer name: "re(" is not in "torch.where(".
bool has_name(const std::string& code, const std::string& words) {
  for (size_t at = 0; (at = code.find(words, at)) != std::string::npos; ++at) {
    const auto before = static_cast<unsigned char>(at == 0 ? ' ' : code[at - 1]);
    if (std::isalnum(before) == 0 && before != '_' && before != '.') return true;
  }
  return false;
}

// A function of a case's program with the imports that it needs, to paste and run.
std::string python_of(const std::string& program, const std::string& function) {
  const std::string code = program_function(program, function);
  if (code.empty()) return "";
  std::string imports;
  for (const std::string& line : lines_in(program)) {
    if (!begins_with_any(line, {"import ", "from "})) continue;
    const std::string name = line.substr(line.rfind(' ') + 1), first = name.substr(0, name.find('.'));
    if (has_name(code, first + ".") || has_name(code, first + "(")) imports += line + "\n";
  }
  return (imports.empty() ? "" : imports + "\n\n") + code.substr(0, code.find_last_not_of('\n') + 1) +
         fmt::format("\n\n\nprint({}())\n", function);
}

std::string code_html(const std::string& code) {
  return "<pre tabindex=\"0\"><code>" + lines_html(code) + "</code></pre>\n";
}

// The function of the program that shows a fix: of "FixReadLater" or "PythonFixReadLater" it is fix_read_later().
std::string function_of_fix(const std::string& program, const std::string& fix) {
  for (const std::string& function : functions_in(program)) {
    const std::string test = test_of_function(function);
    if (!test.empty() && (test == fix || test == "Python" + fix)) return function;
  }
  return "";
}

const CatalogueTest* first_reproduces(const CatalogueCase& one) {
  const auto found = std::ranges::find(one.tests, Kind::Reproduces, &CatalogueTest::kind);
  return found == one.tests.end() ? nullptr : &*found;
}

// The program that fails beside the one that works; in C++ where there is none in Python.
std::string sides_html(const SiteInput& input, const FailureRow& row, const std::string& source) {
  const CatalogueCase& one = *row.what;
  const std::string program = program_of(input, one);
  std::string fails = python_of(program, "fails"), works, fix;
  if (const CatalogueTest* instead = row.instead(); instead != nullptr) {
    works = python_of(program, function_of_fix(program, instead->name));
    fix = instead->fix;
  }
  for (const FixCourse& course : row.fixes) {
    if (!works.empty() || fails.empty()) break;
    works = python_of(program, function_of_fix(program, course.what->name));
    fix = course.what->fix;
  }
  std::string html;
  if (!fails.empty()) {
    html = "<div class=\"sides\"><section><h2>Python that fails</h2>" + code_html(fails) + "</section>";
    if (!works.empty()) {
      html += "<section><h2>Python that works</h2>" + code_html(works) +
              (fix.empty() ? "" : "<p class=\"note\">" + escape_html(fix) + "</p>") + "</section>";
    }
    html += "</div>\n";
  }
  const CatalogueTest* test = first_reproduces(one);
  const std::string code = test == nullptr ? "" : body_of(source, test->name);
  if (code.empty()) return html;
  bool is_python = false;
  std::string instead;
  if (const CatalogueTest* its = row.instead(); its != nullptr) instead = fix_code(source, its->name, is_python);
  const std::string both = "<h3>Code that fails</h3>" + code_html(code) +
                           (instead.empty() ? "" : "<h3>Code that works</h3>" + code_html(instead));
  if (fails.empty()) html += "<p class=\"note\">This failure has no program in Python.</p>\n";
  return html + "<details><summary>The case's own code, in C++ with the suite's macros</summary>" + both +
         "</details>\n";
}

std::string fixes_html(const SiteInput& input, const FailureRow& row, const std::string& source) {
  std::string html;
  const std::string program = program_of(input, *row.what);
  for (const FixCourse& fix : row.fixes) {
    const CatalogueTest& test = *fix.what;
    html += fmt::format("<h3>{}</h3>\n", escape_html(test.fix.empty() ? test.name : test.fix));
    std::vector<std::string> course;
    const auto releases = [](const std::vector<std::string>& all) {
      return all.size() > 2 ? fmt::format("{} releases, {} to {}", all.size(), all.back(), all.front())
                            : join(all, " and ");
    };
    if (!fix.holds.empty()) course.push_back("Holds in " + releases(fix.holds) + ".");
    if (!fix.not_needed.empty()) course.push_back("Not needed in " + releases(fix.not_needed) + ".");
    if (!fix.broken.empty()) course.push_back("Does not hold in " + join(fix.broken) + ".");
    if (course.empty()) course.emplace_back("No run on record shows that it holds.");
    html += fmt::format("<p class=\"note\">{}</p>\n{}", escape_html(join(course, " ")),
                        price_html(input, row.what->id + "." + test.name));
    bool is_python = false;
    std::string code = python_of(program, function_of_fix(program, test.name));
    if (code.empty()) code = fix_code(source, test.name, is_python);
    if (!code.empty()) html += "<details><summary>Code that works</summary>" + code_html(code) + "</details>\n";
  }
  return "<h2>What works instead</h2>\n" + (html.empty() ? "<p>No fix is documented.</p>\n" : html);
}

// The GPUs and drivers on which it failed, with the releases, the newest first.
std::string seen_html(const FailureRow& row) {
  std::map<std::string, std::vector<std::string>> by_machine;
  for (const FailureOnRelease& on : row.releases) {
    for (const FailureForm& form : on.forms) {
      if (!is_known(form.outcome) || form.outcome == FailureOutcome::Works) continue;
      const MachineId machine = form.judged->record.environment.machine;
      add_once(by_machine[label(machine, {.driver = true})], on.column.release);
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

// The paragraphs of a text from this one on.
std::string paragraphs(const std::string& text, size_t begin) {
  std::string html;
  size_t number = 0;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = std::min(text.find("\n\n", at), text.size());
    if (number >= begin) html += "<p>" + escape_html(text.substr(at, end - at)) + "</p>\n";
    at = end + 2;
  }
  return html;
}

const explain::Cause* find_cause(const SiteInput& input, const std::string& id) {
  const auto found = std::ranges::find(input.causes, id, &explain::Cause::id);
  return found == input.causes.end() ? nullptr : &*found;
}

// How often it is met, and its address.
std::string met_html(const SiteInput& input, const std::string& id, const std::string& up) {
  const size_t met = input.met.of(id);
  std::string text;
  if (input.met.with_cause > 0) {
    text = met == 0 ? fmt::format("None of the {} threads with a known cause was about it.", input.met.with_cause)
                    : fmt::format("{} of the {} threads with a known cause {} about it.", met, input.met.with_cause,
                                  met == 1 ? "was" : "were");
    if (up != "#") text += fmt::format(R"( <a href="{}{}">How they were counted</a>.)", up, kMetPage);
  }
  return fmt::format(
      R"(<h2>How often it is met</h2>
<p>{}</p>
<p><button type="button" class="copy" hidden>Copy link</button></p>
)",
      text.empty() ? "Not counted." : text);
}

// Other causes with the same texts, and those that name this one.
std::string alike_html(const SiteInput& input, const std::string& id, bool is_single) {
  std::vector<std::string> others;
  for (const explain::Cause& cause : input.causes) {
    if (cause.id == id) {
      for (const std::string& other : cause.also) add_once(others, other);
    } else if (contains(cause.also, id)) {
      add_once(others, cause.id);
    }
  }
  std::string items;
  for (const std::string& other : others) {
    const explain::Cause* cause = find_cause(input, other);
    const CatalogueCase* one = find_case(input.catalogue, other);
    if (other == id || (one != nullptr && one->fidelity == Fidelity::Simulated)) continue;
    const std::string title = cause != nullptr ? cause->title : one != nullptr ? one->title : "";
    if (title.empty()) continue;
    items += fmt::format("<li>{}</li>\n", link(is_single ? "#failure-" + other : other + ".html", title));
  }
  return items.empty() ? "" : "<h2>What else gives this text</h2>\n<ul>\n" + items + "</ul>\n";
}

std::string error_html(const FailureRow& row) {
  const auto messages = messages_of(row);
  std::string html = "<h2>The error</h2>\n", others;
  for (const std::string& message : messages) {
    (&message == &messages.front() ? html : others) +=
        "<pre class=\"wraps\">" + lines_html(message.substr(0, message.find_last_not_of(" \n") + 1)) + "</pre>\n";
  }
  if (messages.empty()) {
    const FailureOutcome outcome = newest_outcome(row);
    const bool prints = outcome == FailureOutcome::Raises || outcome == FailureOutcome::Warns ||
                        outcome == FailureOutcome::Crashes || !is_known(outcome);
    html += prints
                ? "<p>No record keeps its text.</p>\n"
                : fmt::format("<p>No error is printed. {}: {}.</p>\n", badge(outcome), escape_html(meaning(outcome)));
  }
  html += fmt::format("<p class=\"note\">Documented as: {}</p>\n", escape_html(row.what->documented));
  if (!others.empty()) {
    html += fmt::format("<details><summary>{} on record</summary>{}</details>\n",
                        plural(messages.size() - 1, "other text"), others);
  }
  return html;
}

std::string failure_body(const SiteInput& input, const FailureRow& row, bool is_single) {
  const CatalogueCase& one = *row.what;
  const std::string path = fmt::format("cases/{}/{}.cpp", one.family, one.id);
  std::string source;
  if (std::error_code error; fs::is_regular_file(input.root + "/" + path, error)) {
    source = contents_of(input.root + "/" + path);
  }
  std::string body = fmt::format("<h1>{}</h1>\n<p class=\"say\">{}</p>\n", escape_html(one.title),
                                 escape_html(one.why.substr(0, one.why.find("\n\n"))));
  body += error_html(row) + sides_html(input, row, source);
  std::string course = course_of(row);
  course.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(course.front())));
  body += fmt::format("<h2>In which releases</h2>\n{}<p>{}.</p>\n", ranges_html(row, true), escape_html(course)) +
          changes_html(input, one) + fixes_html(input, row, source);
  if (const std::string why = paragraphs(one.why, 1); !why.empty()) body += "<h2>Why</h2>\n" + why;
  std::string cites;
  for (const Json& cited : one.sources) {
    const std::string id = cited_id(cited), heading = cited.at("heading");
    const CitedSource* known = find_source(input.sources, id);
    cites += fmt::format("<li>{}{}</li>\n", known == nullptr ? escape_html(id) : link(known->url, known->title),
                         id == heading ? "" : escape_html(", " + heading));
  }
  body += "<h2>Described in</h2>\n<ul>\n" + cites + "</ul>\n" + met_html(input, one.id, is_single ? "#" : "../") +
          alike_html(input, one.id, is_single) + "<h2>On record</h2>\n" + seen_html(row) + runs_html(input, row);
  body += fmt::format(
      "<footer>Case <code>{}</code>, family {}, {}. <code>recapture show {} --all</code> has each stack, rate and "
      "price; the case is <code>{}</code>.{}</footer>\n",
      escape_html(one.id), escape_html(one.family), to_string(one.nature), escape_html(one.id), escape_html(path),
      project_links(input.address, is_single ? "#" : "../"));
  return body;
}

// A cause that `recapture explain` knows and no case runs.
std::string cause_body(const SiteInput& input, const explain::Cause& cause, bool is_single) {
  std::string body = fmt::format("<h1>{}</h1>\n", escape_html(cause.title));
  if (!cause.why.empty()) body += fmt::format("<p class=\"say\">{}</p>\n", escape_html(cause.why));
  std::string texts;
  for (const std::string& cue : cause.says) {
    if (cue.find(" + ") == std::string::npos && cue.find('*') == std::string::npos) {
      texts += "<pre class=\"wraps\">" + escape_html(cue) + "</pre>\n";
    }
  }
  if (!texts.empty()) body += "<h2>The error has one of these texts</h2>\n" + texts;
  std::string fixes;
  for (const std::string& fix : cause.fixes) fixes += fmt::format("<li>{}</li>\n", escape_html(fix));
  if (!fixes.empty()) body += "<h2>What works instead</h2>\n<ul>\n" + fixes + "</ul>\n";
  std::string useless;
  for (const std::string& advice : cause.useless) useless += fmt::format("<li>{}</li>\n", escape_html(advice));
  if (!useless.empty()) body += "<h2>What does not help</h2>\n<ul>\n" + useless + "</ul>\n";
  body += met_html(input, cause.id, is_single ? "#" : "../") + alike_html(input, cause.id, is_single);
  return body + fmt::format(
                    "<footer>No case runs it alone{}. <code>recapture explain</code> knows it as "
                    "<code>{}</code>.{}{}</footer>\n",
                    cause.no_case.empty() ? "" : ": " + escape_html(cause.no_case), escape_html(cause.id),
                    cause.link.empty() ? "" : " " + link(cause.link, "Read more") + ".",
                    project_links(input.address, is_single ? "#" : "../"));
}

std::vector<const explain::Cause*> causes_without_case(const SiteInput& input) {
  std::vector<const explain::Cause*> causes;
  for (const explain::Cause& cause : input.causes) {
    if (!cause.has_case) causes.push_back(&cause);
  }
  return causes;
}

// The counts, how they were made, and what distorts them.
std::string met_page(const SiteInput& input) {
  std::vector<std::pair<size_t, std::string>> counts;
  for (const auto& [cause, count] : input.met.causes) counts.emplace_back(count, cause);
  std::ranges::stable_sort(counts, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string rows;
  for (const auto& [count, id] : counts) {
    const explain::Cause* cause = find_cause(input, id);
    if (cause == nullptr) continue;
    rows += fmt::format("<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td></tr>\n",
                        link(url_of_failure(id, false), cause->title), count);
  }
  const std::string body = fmt::format(
      R"(<h1>How often people meet each failure</h1>
<p>{} threads on trackers of PyTorch, vLLM, SGLang, TensorRT-LLM, Warp, JAX, ROCm and others, in which someone reports a failure of CUDA graphs or mends one. {} of them establish a cause; each counts for that cause alone. The rest have none.</p>
<h2>What distorts the counts</h2>
<ul>
<li>The threads were searched for, by error texts and words of CUDA graphs. They are no sample of all users.</li>
<li>Servers of language models write most of them, so what they meet stands higher than what training meets.</li>
<li>What prints no clear error is discussed more often, and what the message explains is seldom reported.</li>
<li>A fix in a library counts once, however many users it had.</li>
<li>A count below ten is little more than "it occurs".</li>
</ul>
<section aria-labelledby="counts"><h2 id="counts">The counts</h2>
<table><thead><tr><th scope="col">Cause</th><th scope="col" class="n">Threads</th></tr></thead><tbody>
{}</tbody></table></section>
<footer>This page has titles and counts, and no text of a thread.{}</footer>
)",
      input.met.threads, input.met.with_cause, rows, project_links(input.address, ""));
  return render({"How often people meet each failure – Recapture", "Threads of users by their cause.", main_of(body),
                 "", "", "page"});
}

// What the links lead to while the project has no public address.
constexpr char kAbout[] =
    R"(<h1>About Recapture</h1>
<p class="say">Recapture finds out why a CUDA graph fails under PyTorch. It reproduces the documented failures on real GPUs, release by release, and keeps a record of each run. This site is made from these records.</p>
<h2 id="install">Install</h2>
<p>On Linux with glibc 2.28 or newer and Python 3.8 or newer, without root, a compiler, LibTorch or a GPU. In a clone, <code>ci/wheel</code> makes the file and prints its path:</p>
<pre tabindex="0"><code>python3 -m venv ~/recapture-venv
~/recapture-venv/bin/pip install recapture-*.whl
~/recapture-venv/bin/recapture blame -- python3 train.py</code></pre>
<h2 id="documents">Documents</h2>
<p><code>README.md</code> of the clone leads to each page of <code>docs/</code> by what one wants to do. <code>recapture help</code> and <code>man recapture</code> have each option.</p>
<h2 id="source">Source</h2>
<p>The project has no public address yet. This site was made in a clone by <code>recapture page --site</code>; <code>cases/</code> there has the code of each failure, <code>reports/</code> each record.</p>
<h2 id="wrong">Report a wrong answer</h2>
<p>Tell the person who sent you this site, or fill in <code>.github/ISSUE_TEMPLATE/wrong-answer.yml</code> of the clone:</p>
<ul>
<li>what was typed, or the address of the page: each failure has <em>Copy link</em>;</li>
<li>what it answered;</li>
<li>what is right, and how you know;</li>
<li>the output of <code>recapture --version</code> and <code>recapture doctor</code>.</li>
</ul>
)";

std::string about_page() {
  return render({"About Recapture", "How to install Recapture, where its documents are, how to report a wrong answer.",
                 main_of(kAbout), "", "", "page"});
}

Json data_of(const SiteInput& input, const FailureTable& failures, bool is_single) {
  Json data =
      search_data({input.causes, input.catalogue, input.matrix, failures, input.operators, input.met}, is_single);
  data["outcomes"] = Json::array();  // letters_of() numbers them.
  for (int i = 0; i <= static_cast<int>(FailureOutcome::NotRun); ++i) {
    data["outcomes"].push_back(to_string(static_cast<FailureOutcome>(i)));
  }
  return data;
}

}  // namespace

std::map<std::string, std::string> render_site(const SiteInput& input) {
  std::map<std::string, std::string> pages = {{"operators.html", operators_page(input)}, {kMetPage, met_page(input)}};
  if (input.address.empty()) pages[kAboutPage] = about_page();
  Json data;
  for (const Columns& columns : kColumns) {
    const FailureTable failures = failure_table(input.matrix, input.catalogue, columns.kind);
    const bool is_by_release = columns.kind == FailureColumns::Releases;
    if (is_by_release) data = data_of(input, failures, false);
    data["columns"] = Json::array();
    for (const FailureColumn& column : failures.columns) data["columns"].push_back({column.release, column.detail});
    pages[columns.path] = render(
        {kTitle, kDescription,
         main_of(index_body(input, failures, columns, false) + (is_by_release ? kRun : "") + footer_of(input, false)),
         "", "index.html", is_by_release ? "first" : "", false, data});
    if (!is_by_release) continue;
    for (const FailureRow& row : failures.rows) {
      const CatalogueCase& one = *row.what;
      pages["failures/" + one.id + ".html"] =
          render({one.title + " – Recapture", one.why.substr(0, one.why.find("\n\n")),
                  main_of(failure_body(input, row, false)), "../", "", "page"});
    }
    for (const explain::Cause* cause : causes_without_case(input)) {
      pages["failures/" + cause->id + ".html"] = render(
          {cause->title + " – Recapture", cause->why, main_of(cause_body(input, *cause, false)), "../", "", "page"});
    }
  }
  return pages;
}

std::string render_single_file(const SiteInput& input) {
  const FailureTable failures = failure_table(input.matrix, input.catalogue);
  const std::vector<Word> words = words_of_operators(input.operators);
  std::string body =
      main_of(index_body(input, failures, kColumns.front(), true) +
              fmt::format(R"(<section aria-labelledby="operators"><h2 id="operators">Operators</h2>{}</section>
)",
                          operators_table(input.operators, words, true)) +
              footer_of(input, true));
  for (const FailureRow& row : failures.rows) {
    body += fmt::format("<article id=\"failure-{}\" class=\"page\">\n{}</article>\n", escape_html(row.what->id),
                        failure_body(input, row, true));
  }
  for (const explain::Cause* cause : causes_without_case(input)) {
    body += fmt::format("<article id=\"failure-{}\" class=\"page\">\n{}</article>\n", escape_html(cause->id),
                        cause_body(input, *cause, true));
  }
  return render({kTitle, kDescription, body, "", "index.html", "single first", true, data_of(input, failures, true)});
}

PageHeader render_site_header(const std::string& address) {
  std::string links;
  for (const auto& [path, name] : kPages) {
    if (std::string(path).rfind(kUpgradePage, 0) != 0) links += fmt::format(R"(<a href="{}">{}</a>)", path, name);
  }
  return {fmt::format(R"(<nav id="site" aria-label="Site">{}</nav>)", links), search_field("index.html", kPlaceholder),
          project_links(address, "")};
}

}  // namespace recapture::report
