#include "harness/check/documents.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "harness/judge/tree.h"

namespace recapture {
namespace {

const std::set<std::string> kDocuments = {"capture failures", "load corruption", "freeze race", "gradient aliasing"};
const std::set<std::string> kKinds = {"heading", "item", "message", "number", "remedy", "row", "warning"};

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What the cases say, by their sources.
struct Cases {
  std::set<std::string> tests;                                                 // case.Test
  std::map<std::string, std::set<std::pair<std::string, std::string>>> cited;  // Document and heading, by case.
};

Cases cases_of(const std::string& root) {
  static const std::regex kTest(R"(\nTEST(?:_F)?\(\s*\w+,\s*(\w+)\s*\))");
  static const std::regex kSource(R"re(\{"([^"]+)",\s*"([^"]+)"\})re");
  Cases cases;
  for (const auto& [id, tree_case] : cases_in_tree(root)) {
    const std::string source = contents(tree_case.path);
    for (std::sregex_iterator at(source.begin(), source.end(), kTest), end; at != end; ++at) {
      cases.tests.insert(id + "." + (*at)[1].str());
    }
    for (std::sregex_iterator at(source.begin(), source.end(), kSource), end; at != end; ++at) {
      if (kDocuments.count((*at)[1]) != 0) cases.cited[id].insert({(*at)[1], (*at)[2]});
    }
  }
  return cases;
}

}  // namespace

std::vector<DocumentLine> read_documents(const std::string& root) {
  std::vector<DocumentLine> lines;
  std::istringstream file(contents(root + "/cases/documents.tsv"));
  std::string line;
  std::getline(file, line);  // The heading.
  for (int number = 2; std::getline(file, line); ++number) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '\t');) cells.push_back(cell);
    if (cells.size() != 5) cells.assign(5, "");  // Which is then an error of its own.
    lines.push_back({cells[0], cells[1], cells[2], cells[3], cells[4], number});
  }
  return lines;
}

std::vector<std::string> document_errors(const std::string& root) {
  const Cases cases = cases_of(root);
  std::vector<std::string> errors;
  std::set<std::string> covered, said;
  std::set<std::pair<std::string, std::string>> headings;
  for (const DocumentLine& line : read_documents(root)) {
    const auto error = [&](const std::string& what) {
      errors.push_back(fmt::format("cases/documents.tsv:{}: {}", line.number, what));
    };
    if (line.document.empty() || line.heading.empty() || line.says.empty()) {
      error("needs five cells: document, heading, kind, what it says, who covers it");
      continue;
    }
    if (kDocuments.count(line.document) == 0) error("'" + line.document + "' is no document");
    if (kKinds.count(line.kind) == 0) error("'" + line.kind + "' is no kind");
    if (!said.insert(line.document + "|" + line.heading + "|" + line.kind + "|" + line.says).second) {
      error("says this a second time");
    }
    headings.insert({line.document, line.heading});
    if (line.covered == "not yet" || line.covered.rfind("not covered: ", 0) == 0) continue;
    if (line.covered.empty()) error("names no test, and does not say 'not yet' or 'not covered: why'");
    std::istringstream words(line.covered);
    for (std::string id; words >> id;) {
      if (cases.tests.count(id) == 0) error(id + " is no test");
      covered.insert(id.substr(0, id.find('.')));
    }
  }
  for (const auto& [id, cited] : cases.cited) {
    for (const auto& [document, heading] : cited) {
      if (headings.count({document, heading}) == 0) {
        errors.push_back(
            fmt::format("{}: cites '{}' under '{}', which cases/documents.tsv lacks", id, document, heading));
      }
    }
    if (covered.count(id) == 0) errors.push_back(id + " stands at no line of the documents that it cites");
  }
  return errors;
}

}  // namespace recapture
