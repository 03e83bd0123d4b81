// What a night shows that the nights before it did not: said once, and not again the night after.
#pragma once
#include <string>
#include <vector>

#include "harness/compare/compare.h"

namespace recapture {

// Several tests of one case that changed in one way, wherever that was seen. The fingerprint is of the cause alone
// (case, tests, result and what was seen, without addresses, paths and versions), so that a recurrence is recognised.
struct NewsIssue {
  std::string fingerprint, title, body;
};

// One release on one kind of GPU.
struct MachineNews {
  std::string machine;    // "2.6.0, NVIDIA H200"
  Comparison comparison;  // With what changed alone; its head begins with what changed of the machine.
  bool moved = false;     // The machine changed.
  std::vector<std::string> flaky;
  std::vector<std::string> lost;        // Had a clear result the last time, and have none tonight.
  std::vector<std::string> uncompared;  // How many tests have nothing to be compared with, a line for each reason.
  std::vector<std::string> unexpected;  // Those of them that are red by tonight's own verdict.

  bool is_news() const {
    return moved || !lost.empty() || !flaky.empty() || !uncompared.empty() || !unexpected.empty() ||
           !comparison.changes.empty();
  }
};

struct News {
  std::string night, before;      // As their folders are called.
  std::vector<std::string> head;  // What is missing of the nights, and what ran for the first time or not any more.
  bool is_whole = true;           // Nothing is missing, and there is something to compare all of it with.
  std::vector<MachineNews> machines;
  std::vector<NewsIssue> issues;  // Of what hurts.
};

struct NewsChoice {
  std::string night;  // A gathered folder, or what it is called below that of all nights; "": the newest.
  bool since_good = false;
};

// Of a night and those before it, all of them folders that `recapture gather` made, somewhere below `nights`. Each test
// is compared with the newest night that has a clear result of it; with `since_good` with the newest that was marked
// good
// (`recapture good`) or, if none was, is whole. Throws Stop: NothingRan where there is no night, Usage where `choice`
// is none.
News news_of(const std::string& nights, const NewsChoice& choice, const Background& background);

std::string as_text(const News& news);
std::string as_markdown(const News& news);  // Below GitHub's limit for a job's summary.
Json as_json(const News& news);
Exit exit_for(const News& news);

}  // namespace recapture
