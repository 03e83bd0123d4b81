// Records by path, each read once and judged once by its own code.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "harness/compare/compare.h"

namespace recapture::compare {

class JudgedRecords {
 public:
  explicit JudgedRecords(const CompareContext& context) : rules_(without_staleness(context.rules)) {}

  // They throw ExitError as read_record() does. What they return is valid until forget_below().
  const Environment& environment(const std::string& path);  // Reads the first line alone.
  const Record& record(const std::string& path);
  const JudgedRun& judged(const std::string& path);

  // Records that links in the folder point to are kept.
  void forget_below(const std::string& folder);

 private:
  struct Entry {
    std::once_flag began, read, judged;
    Environment environment;
    JudgedRun run;
  };
  Entry& entry(const std::string& path);

  const Rules rules_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;  // By the path without links.
};

}  // namespace recapture::compare
