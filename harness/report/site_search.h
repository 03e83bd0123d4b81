// What the site's search knows: which text has which cause, with the answers of `recapture explain`, how often people
// meet each cause, and what is on record.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/explain/causes.h"
#include "harness/store/result_matrix.h"
#include "harness/timeline/failures.h"
#include "harness/timeline/operators.h"

namespace recapture::report {

// cases/met.tsv, which tools/met counts: threads of users by their cause.
struct Met {
  std::map<std::string, size_t> causes = {};
  size_t threads = 0, with_cause = 0;

  size_t of(const std::string& cause) const;
};

// Without the file, nothing is counted. Throws ExitError(Usage) with the place of a malformed line.
Met read_met(const std::string& root);

struct SearchInput {
  const std::vector<explain::Cause>& causes;
  const Catalogue& catalogue;
  const ResultMatrix& matrix;
  const timeline::FailureTable& failures;
  const timeline::OperatorTable& operators;
  const Met& met;
};

// All of it is generated from the tables of `recapture explain`, so that both read a text by the same one.
// {"endings" that words lose, "errors": [code, name, text, explain's answer, the cause that it names or "", the case
// that shows it or "", whether
//  it follows from another one] each, "causes": {id, title, url, met, says, codes, names, calls, statements, symptoms,
//  answer, fix, also, terms} each, in explain's order, without what is empty, "operators": [call, name, course, advice]
//  each, "columns": [release, detail] each, "machines": {"gpus", "drivers", "newest", "nightlies"}}
Json search_data(const SearchInput& input, bool is_single);

// The page of a failure or of a cause.
std::string url_of_failure(const std::string& id, bool is_single);

}  // namespace recapture::report
