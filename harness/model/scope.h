// A program's scope: tags, families and cases.
#pragma once
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/case/tags.h"
#include "harness/model/catalogue.h"

namespace recapture {

bool has_tag(const CatalogueCase& one, const Tag& tag);

// The cases that the words name, plus those of any program; all cases if there are no words. A word is a tag or an
// alias of one, else a family, else a case or a glob such as "nemo_*". For any other word, throws ExitError(Usage) with
// one line: the nearest tag and all tags.
std::set<std::string> cases_in_scope(const std::vector<std::string>& words, const Catalogue& catalogue);

// The cases that one such word names.
std::set<std::string> cases_meant(const std::string& word, const Catalogue& catalogue);

// The cases whose family or id the word names, or the glob matches, even if the word is also a tag. Empty for a tag
// that names no family or case.
std::set<std::string> cases_named(const std::string& word, const Catalogue& catalogue);

// Every tag, in the vocabulary's order, with the number of its cases.
std::vector<std::pair<const Tag*, size_t>> tags_with_counts(const Catalogue& catalogue);

}  // namespace recapture
