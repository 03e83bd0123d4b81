// Which words people use of which cause, for a text in which only words speak for any: cases/terms.tsv. Words prove
// nothing, so what they point to is only ever called possible.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/model/catalogue.h"

namespace recapture::explain {

struct Cause;

// A text whose cause is known, with those that it names as well. Its project's name says nothing of the cause.
struct Example {
  std::string cause, text, url = {};
  std::vector<std::string> also = {};
};

// The words of a text in lower case, each once and without its ending: "replays" and "replayed" are "replay".
std::set<std::string> terms_of(std::string_view text);

// Each term of a cause with its weight, by the cause's id.
using Terms = std::map<std::string, std::map<std::string, int>>;

// A term weighs the more the more of a cause's texts have it, and the fewer other causes do: tf-idf, over what the
// catalogue and the causes say of each and over the examples. An example counts for less for the causes that it names
// beside its own. A term that stands in one text alone is left out.
Terms weigh_terms(const std::vector<Cause>& causes, const Catalogue& catalogue, const std::vector<Example>& examples);

// Write and read the table. Reading throws ExitError(Usage) with the place of a malformed line; a missing file is an
// empty table.
std::string render_terms(const Terms& terms);
Terms read_terms(const std::string& root);

// Lines of JSON with a "cause", a "text" and a "url", and the other causes as "or"; a text without a cause is no
// example. Throws ExitError(Usage).
std::vector<Example> read_examples(const std::string& path);

}  // namespace recapture::explain
