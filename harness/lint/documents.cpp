#include "harness/lint/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "harness/base/exit.h"
#include "harness/base/regex.h"
#include "harness/model/release.h"
#include "harness/model/tree.h"

namespace recapture::lint {
namespace {

// The documents, each with its number of lines; 0: it has pages, and claims are cited by page.
const std::map<std::string, int> kDocuments = {
    {"capture failures", 1122},    {"load corruption", 135},      {"freeze race", 173},
    {"gradient aliasing", 428},    {"CUDA graph guide", 0},       {"CUDAGraph Trees", 0},
    {"make_graphed_callables", 0}, {"CUDA semantics: graphs", 0}, {"CUDA graph nodes", 0}};
constexpr char kReleases = '@';
const std::string kNoLines = "-", kNotCovered = "not covered: ", kNotYet = "not yet";
const std::set<std::string> kKinds = {"environment", "heading", "item", "message",
                                      "number",      "remedy",  "row",  "warning"};

// The most lines between two claims: a heading, a label, empty lines.
constexpr int kGap = 9;

// "12", or "12-20".
bool read_lines(const std::string& cell, int& first, int& last) {
  const char* const end = cell.data() + cell.size();
  auto [at, error] = std::from_chars(cell.data(), end, first);
  last = first;
  if (error == std::errc() && at != end && *at == '-') {
    const auto [to, bad] = std::from_chars(at + 1, end, last);
    at = to, error = bad;
  }
  return error == std::errc() && at == end && 0 < first && first <= last;
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The cases' tests and sources.
struct Cases {
  std::set<std::string> tests;                                                 // case.Test
  std::map<std::string, std::set<std::pair<std::string, std::string>>> cited;  // Document and heading, by case.
};

Cases cases_of(const std::string& root) {
  static const RE2 kTest(R"(\nTEST(?:_F)?\(\s*\w+,\s*(\w+)\s*\))");
  static const RE2 kSource(R"re(\{"([^"]+)",\s*"([^"]+)"\})re");
  Cases cases;
  for (const auto& [id, tree_case] : cases_in_tree(root)) {
    const std::string source = contents(tree_case.path);
    for (const Match& test : all_matches(source, kTest)) cases.tests.insert(fmt::format("{}.{}", id, test[1]));
    for (const Match& cited : all_matches(source, kSource)) {
      const std::string document(cited[1]);
      if (kDocuments.count(document) != 0) cases.cited[id].insert({document, std::string(cited[2])});
    }
  }
  return cases;
}

}  // namespace

std::vector<CoveringTest> DocumentLine::tests() const {
  static const std::map<std::string, Shows> kShows = {
      {"fails", Shows::Fails}, {"against", Shows::Against}, {"any", Shows::Any}};
  std::vector<CoveringTest> tests;
  if (covered.rfind(kNotCovered, 0) == 0 || covered == kNotYet) return tests;
  std::istringstream words(covered);
  std::string releases;
  for (std::string word; words >> word;) {
    if (word.front() == kReleases) {
      releases = word.substr(1);
      continue;
    }
    CoveringTest test{word, Shows::Documented, releases};
    const size_t colon = word.rfind(':');
    if (const auto shows = kShows.find(word.substr(colon == word.npos ? word.size() : colon + 1));
        shows != kShows.end()) {
      test.shows = shows->second;
      test.id.erase(colon);
    }
    const size_t fact = test.id.find('?'), value = test.id.find('=', fact == word.npos ? 0 : fact);
    if (fact != word.npos && value != word.npos && fact + 1 < value && value + 1 < test.id.size()) {
      test.fact = test.id.substr(fact + 1, value - fact - 1);
      test.value = test.id.substr(value + 1);
      test.id.erase(fact);
    }
    tests.push_back(std::move(test));
  }
  return tests;
}

std::vector<DocumentLine> read_documents(const std::string& root) {
  std::vector<DocumentLine> lines;
  std::istringstream file(contents(root + "/cases/coverage.tsv"));
  std::string line;
  std::getline(file, line);  // Skip the heading.
  for (int number = 2; std::getline(file, line); ++number) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '\t');) cells.push_back(cell);
    if (cells.size() != 6) cells.assign(6, "");  // Reported as an error below.
    lines.push_back({cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], 0, 0, number});
    DocumentLine& read = lines.back();
    if (!read_lines(read.lines, read.first, read.last)) read.first = read.last = 0;
  }
  return lines;
}

std::vector<std::string> document_errors(const std::string& root) {
  const Cases cases = cases_of(root);
  static const RE2 kMayWait("DDP|DistributedDataParallel|NCCL");
  static const RE2 kOnRecord(R"(\bno record( with [^;]*)? is |\brecords have \d)");
  std::vector<std::string> errors;
  std::set<std::string> covered, claims;
  std::map<std::string, int> begun, read;  // By document: where the last claim begins, and the last line so far.
  std::set<std::pair<std::string, std::string>> headings;
  for (const DocumentLine& line : read_documents(root)) {
    const auto error = [&](const std::string& what) {
      errors.push_back(fmt::format("cases/coverage.tsv:{}: {}", line.number, what));
    };
    if (line.document.empty() || line.heading.empty() || line.says.empty()) {
      error("needs six cells: document, its line or lines, heading, kind, what it says, who covers it");
      continue;
    }
    const auto document = kDocuments.find(line.document);
    if (document == kDocuments.end()) {
      error("'" + line.document + "' is not a document");
    } else if (document->second == 0) {
      if (line.lines != kNoLines) error(fmt::format("its document has no lines; write '{}'", kNoLines));
    } else if (line.first == 0 || line.last > document->second) {
      error(fmt::format("'{}' names no lines of the {} that the document has", line.lines, document->second));
    } else {
      int &before = begun[line.document], &to = read[line.document];
      if (line.first < before) error(fmt::format("stands after line {} of its document", before));
      if (line.first - to - 1 > kGap) {
        error(fmt::format("no claim covers lines {} to {} of its document", to + 1, line.first - 1));
      }
      before = line.first;
      to = std::max(to, line.last);
    }
    if (kKinds.count(line.kind) == 0) error("'" + line.kind + "' is not a kind");
    if (!claims.insert(line.document + "|" + line.heading + "|" + line.kind + "|" + line.says).second) {
      error("repeats an earlier claim");
    }
    headings.insert({line.document, line.heading});
    if (RE2::PartialMatch(line.says + line.covered, kOnRecord)) {
      error(
          "says which releases are on record; the next record makes that wrong, see `recapture dev tables documents`");
    }
    if (line.covered.rfind(kNotCovered, 0) == 0) {
      if (line.covered.size() == kNotCovered.size()) error("does not say why it is not covered");
      continue;
    }
    if (line.covered == kNotYet) {
      if (!RE2::PartialMatch(line.heading + line.says, kMayWait)) error("'not yet' is for what needs DDP or NCCL");
      continue;
    }
    for (const CoveringTest& test : line.tests()) {
      if (cases.tests.count(test.id) == 0)
        error(test.id + " is not a test, nor one with ':fails', ':against' or ':any'");
      covered.insert(test.id.substr(0, test.id.find('.')));
      try {
        in_range("2.0.0", test.releases);
      } catch (const ExitError& e) {
        error(e.what());
      }
    }
  }
  for (const auto& [document, to] : read) {
    if (kDocuments.at(document) - to <= kGap) continue;
    errors.push_back(fmt::format("cases/coverage.tsv: no claim covers the lines of '{}' from {} on", document, to + 1));
  }
  for (const auto& [id, cited] : cases.cited) {
    for (const auto& [document, heading] : cited) {
      if (headings.count({document, heading}) == 0) {
        errors.push_back(
            fmt::format("{}: cites '{}' under '{}', which cases/coverage.tsv lacks", id, document, heading));
      }
    }
    if (covered.count(id) == 0) {
      errors.push_back(id + " stands at no line of the documents that it cites; name its tests in cases/coverage.tsv");
    }
  }
  return errors;
}

}  // namespace recapture::lint
