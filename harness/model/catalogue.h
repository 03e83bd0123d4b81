// The catalogue: the descriptions of all cases, in one generated and committed file, for code that needs neither a
// build nor LibTorch. `recapture dev catalogue` makes it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "harness/model/record.h"
#include "harness/model/suggest.h"

namespace recapture {

struct CatalogueTest {
  std::string name;  // Without the case.
  Kind kind = Kind::Control;
  std::optional<Effect> effect;  // Of Reproduces: the failure's effect on a program.
  std::string fix;               // Of Fix: one actionable sentence.
  std::string releases = {};     // Of Fix: the range of releases that it is for; "" is all.
};

struct CatalogueCase {
  std::string id, family, title, why;  // Why it fails, in paragraphs separated by an empty line.
  Json sources = Json::array();        // {"document", "heading"} each.
  std::string documented;
  Nature nature = Nature::Defect;
  Fidelity fidelity = Fidelity::Modelled;
  std::vector<std::string> tags;      // Names of harness/case/tags.h.
  std::vector<std::string> features;  // Those tags that a program must all have to meet the case.
  Needs needs;
  int deadline_s = 0;
  Effect effect = Effect::Raises;
  std::vector<CatalogueTest> tests;  // In the file's order.
};

using Catalogue = std::vector<CatalogueCase>;  // By id.

// Whether this test is one of the case's program, and the case has tests in C++ that show the same. Such tests are run
// and judged like the others, and are not counted as failures and fixes of their own.
bool repeats(const CatalogueCase& one, const CatalogueTest& test);

// nullptr where there is none.
const CatalogueCase* find_case(const Catalogue& catalogue, const std::string& id);

// cases/catalogue.json, as `dev catalogue` prints it, or else the packed file, which is committed.
std::string catalogue_path(const std::string& root);

// The committed one. Throws ExitError(Usage) with one line if it is missing or invalid.
Catalogue read_catalogue(const std::string& root);

// The file's text.
std::string render_text(const Catalogue& catalogue);

// A case's description (CaseInfo::to_json(), with "tags" and "fix_releases") with the prose of its source. Throws
// ExitError(Usage) if it has no effect or no tags, as cases built by an older version, or an unknown word.
CatalogueCase catalogue_case(const Json& described, const std::string& source);

// The comment that opens a case's source, without the line that compiles it, as paragraphs.
std::string why_of(const std::string& source);

// From this position's line through the end of the function; "" if it has no end.
std::string function_at(const std::string& source, size_t position);

// A test in the source of its case; "" if it is not there.
std::string test_in(const std::string& source, const std::string& test);

// One line about the first case that differs; "" if there is none.
std::string first_difference(const Catalogue& committed, const Catalogue& built);

Names names_in(const Catalogue& catalogue);

// The cases that the words name, each once; all if there are no words. Throws ExitError(Usage) for an unknown word.
Catalogue selected(const Catalogue& catalogue, const std::vector<std::string>& words);

Json render_json(const CatalogueCase& one);

// An entry of cases/sources.toml.
struct CitedSource {
  std::string id, title, url;
};
std::vector<CitedSource> read_sources(const std::string& root);

// nullptr where there is none.
const CitedSource* find_source(const std::vector<CitedSource>& sources, const std::string& id);

// Returns a cited source's id: the thread's number, or the document's name and heading.
std::string cited_id(const Json& source);

}  // namespace recapture
