// The catalogue: what every case says about itself, in one generated and committed file. Code that needs to know what a
// case is, and not what it does here, needs neither a build nor LibTorch. `recapture dev catalogue` makes it.
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
  std::optional<Effect> effect;  // Of Reproduces: what the failure does to the program that meets it.
  std::string fix;               // Of Fix: what to do, in a sentence.
  std::string releases = {};     // Of Fix: a range of the releases that it is for by its own words; "" is all.
};

struct CatalogueCase {
  std::string id, family, title, why;  // Why it fails, in paragraphs that an empty line parts.
  Json sources = Json::array();        // {"document", "heading"} each.
  std::string documented;
  Nature nature = Nature::Defect;
  Fidelity fidelity = Fidelity::Modelled;
  std::vector<std::string> tags;  // Names of harness/case/tags.h.
  std::string needs;
  int deadline_s = 0;
  Effect effect = Effect::Raises;
  std::vector<CatalogueTest> tests;  // In the file's order.
};

using Catalogue = std::vector<CatalogueCase>;  // By id.

// nullptr where there is none.
const CatalogueCase* find_case(const Catalogue& catalogue, const std::string& id);

std::string catalogue_path(const std::string& root);

// The committed one. Throws ExitError(Usage) with one line if it is not there or is not a catalogue.
Catalogue read_catalogue(const std::string& root);

// The file's text.
std::string render_text(const Catalogue& catalogue);

// What a case says about itself (CaseInfo::to_json(), with "tags" and "fix_releases") with the prose of its source.
// Throws ExitError(Usage) if it names no effect or no tags, as those that were built before cases did, or says a word
// that is not known.
CatalogueCase catalogue_case(const Json& described, const std::string& source);

// The comment that opens a case's source, without the line that compiles it, as paragraphs.
std::string why_of(const std::string& source);

// From the line of this position through the end of the function; "" where it does not end.
std::string function_at(const std::string& source, size_t position);

// A test in the source of its case, as it stands; "" where it is not there.
std::string test_in(const std::string& source, const std::string& test);

// In one line the first case that the two do not say the same of; "" if there is none.
std::string first_difference(const Catalogue& committed, const Catalogue& built);

Names names_in(const Catalogue& catalogue);

// Those that the words name, each once; all if there are no words. Throws ExitError(Usage) for a word that names
// nothing.
Catalogue selected(const Catalogue& catalogue, const std::vector<std::string>& words);

Json render_json(const CatalogueCase& one);

// What is cited: cases/sources.toml.
struct CitedSource {
  std::string id, title, url;
};
std::vector<CitedSource> read_sources(const std::string& root);

// nullptr where there is none.
const CitedSource* find_source(const std::vector<CitedSource>& sources, const std::string& id);

// The id of what a case cites: an upstream thread goes by its number, a document by its name with a heading.
std::string cited_id(const Json& source);

}  // namespace recapture
