#include "harness/compare/judged_records.h"

#include <filesystem>
#include <system_error>

#include "harness/store/select.h"

namespace recapture::compare {
namespace {

std::string without_links(const std::string& path) {
  std::error_code error;
  const auto canonical = std::filesystem::weakly_canonical(path, error);  // One in an archive has no file of its own.
  return error ? path : canonical.string();
}

}  // namespace

JudgedRecords::Entry& JudgedRecords::entry(const std::string& path) {
  const std::string key = without_links(path);
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Entry>& entry = entries_[key];
  if (entry == nullptr) entry = std::make_unique<Entry>();
  return *entry;
}

const Environment& JudgedRecords::environment(const std::string& path) {
  Entry& found = entry(path);
  std::call_once(found.began, [&] { found.environment = environment_of(path); });
  return found.environment;
}

const Record& JudgedRecords::record(const std::string& path) {
  Entry& found = entry(path);
  std::call_once(found.read, [&] { found.run.record = read_record(path); });
  return found.run.record;
}

const JudgedRun& JudgedRecords::judged(const std::string& path) {
  record(path);
  Entry& found = entry(path);
  std::call_once(found.judged, [&] { found.run = judge_run(std::move(found.run.record), rules_); });
  return found.run;
}

void JudgedRecords::forget_below(const std::string& folder) {
  const std::string begin = without_links(folder) + "/";
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const auto& item) { return item.first.starts_with(begin); });
}

}  // namespace recapture::compare
