// The words that people use for each cause, for a text with no other evidence: cases/terms.tsv.xz. Words prove nothing,
// so these causes are only possible.
#pragma once
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model/catalogue.h"

namespace recapture::explain {

struct Cause;

// A text with a known cause, and further causes that it names. The name of its project is no evidence.
struct Example {
  std::string cause, text, url = {};
  std::vector<std::string> also = {};
};

// The words of a text in lower case, without endings and duplicates: "replays" and "replayed" are "replay".
std::set<std::string> terms_of(std::string_view text);

// The endings that words lose there, the first that fits. The page's search reads the table with them.
std::span<const std::string_view> word_endings();

// Each term of a cause with its weight, by the cause's id.
using Terms = std::map<std::string, std::map<std::string, int>>;

// A term weighs more if more of a cause's texts and fewer other causes have it: tf-idf over the catalogue's and the
// causes' own texts and over the examples. An example counts less for further causes that it names. A term that occurs
// in only one text is left out.
Terms weigh_terms(const std::vector<Cause>& causes, const Catalogue& catalogue, const std::vector<Example>& examples);

// Write and read the table. Reading throws ExitError(Usage) with the place of a malformed line; a missing file is an
// empty table.
std::string render_terms(const Terms& terms);
Terms read_terms(const std::string& root);

// Packed by xz: lines of JSON with a "cause", a "text" and a "url", and further causes in "or"; lines without a cause
// are skipped. Throws ExitError(Usage).
std::vector<Example> read_examples(const std::string& path);

}  // namespace recapture::explain
