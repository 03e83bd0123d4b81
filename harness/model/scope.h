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

// The cases of the family or case that such a word names, or of the glob, also where it is a tag too; none of another
// tag.
std::set<std::string> cases_named(const std::string& word, const Catalogue& catalogue);

// Every tag, in the vocabulary's order, with the number of its cases.
std::vector<std::pair<const Tag*, size_t>> tags_with_counts(const Catalogue& catalogue);

}  // namespace recapture
