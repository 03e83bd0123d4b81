#include "harness/compare/judged_records.h"

#include <filesystem>
#include <system_error>

#include "harness/store/select.h"

namespace recapture::compare {
namespace {

std::string without_links(const std::string& path) {
  std::error_code error;
  const auto its = std::filesystem::weakly_canonical(path, error);  // One in an archive has no file of its own.
  return error ? path : its.string();
}

}  // namespace

JudgedRecords::Entry& JudgedRecords::entry(const std::string& path) {
  const std::string its = without_links(path);
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Entry>& entry = entries_[its];
  if (entry == nullptr) entry = std::make_unique<Entry>();
  return *entry;
}

const Environment& JudgedRecords::environment(const std::string& path) {
  Entry& its = entry(path);
  std::call_once(its.began, [&] { its.environment = environment_of(path); });
  return its.environment;
}

const Record& JudgedRecords::record(const std::string& path) {
  Entry& its = entry(path);
  std::call_once(its.read, [&] { its.run.record = read_record(path); });
  return its.run.record;
}

const JudgedRun& JudgedRecords::judged(const std::string& path) {
  record(path);
  Entry& its = entry(path);
  std::call_once(its.judged, [&] { its.run = judge_run(std::move(its.run.record), rules_); });
  return its.run;
}

void JudgedRecords::forget_below(const std::string& folder) {
  const std::string begin = without_links(folder) + "/";
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const auto& one) { return one.first.starts_with(begin); });
}

}  // namespace recapture::compare
