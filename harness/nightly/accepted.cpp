#include "harness/nightly/accepted.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>
#include <utility>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/regex.h"
#include "harness/base/toml.h"

namespace recapture::nightly {
namespace {

// A record of reports/, or an issue.
bool names_a_run_or_issue(const std::string& reason) {
  static const RE2 kRunOrIssue(R"(reports/\S+\.jsonl|(?:^|\s|\()#\d+|https://\S+/(?:issues|pull|merge_requests)/\d+)");
  return RE2::PartialMatch(reason, kRunOrIssue);
}

Acceptance acceptance_in(const toml::table& entry, const std::string& place) {
  only_keys(entry, {"test", "machine", "reason", "until"}, place);
  Acceptance accepted;
  accepted.test = text_in(entry, "test", place);
  accepted.machine = text_in(entry, "machine", place);
  accepted.reason = text_in(entry, "reason", place);
  accepted.line = static_cast<int>(entry.source().begin.line);
  static const RE2 kTests(R"(\*|\w+\.(?:\*|\w+))");
  if (!RE2::FullMatch(accepted.test, kTests)) {
    throw ExitError(Exit::Usage,
                    fmt::format("{}: test '{}' is not CASE.TEST, CASE.* or *", place, escape_control(accepted.test)));
  }
  if (accepted.machine.find(", ") == std::string::npos) {
    throw ExitError(Exit::Usage, fmt::format("{}: machine '{}' is not such as \"2.15.0, NVIDIA H200\"", place,
                                             escape_control(accepted.machine)));
  }
  if (!names_a_run_or_issue(accepted.reason)) {
    throw ExitError(
        Exit::Usage,
        fmt::format("{}: the reason names neither a record (reports/….jsonl) nor an issue (#7 or its address)", place));
  }
  const auto until = entry["until"].value<toml::date>();
  const auto date = until ? std::chrono::year_month_day(std::chrono::year(until->year),
                                                        std::chrono::month(until->month), std::chrono::day(until->day))
                          : std::chrono::year_month_day();
  if (!until || !date.ok()) throw ExitError(Exit::Usage, place + ": until is not a date such as 2027-05-01");
  accepted.until = date;
  return accepted;
}

}  // namespace

bool Acceptance::is_of(const std::string& test_id, const std::string& machine_name) const {
  if (machine != machine_name) return false;
  if (test == "*" || test == test_id) return true;
  return test.ends_with(".*") && test_id.starts_with(std::string_view(test).substr(0, test.size() - 1));
}

std::string accepted_name(const Environment& environment) {
  return fmt::format("{}, {}", escape_control(environment.name_in_matrix()),
                     label(environment.machine, {.variables = true, .overrides = true}));
}

std::optional<std::chrono::sys_days> date_of(const std::string& text) {
  int year = 0;
  unsigned month = 0, day = 0;
  const auto is_read = [&](size_t begin, size_t size, auto& number) {
    if (text.size() < begin + size) return false;
    const auto [end, error] = std::from_chars(text.data() + begin, text.data() + begin + size, number);
    return error == std::errc() && end == text.data() + begin + size;
  };
  if (!is_read(0, 4, year) || !is_read(5, 2, month) || !is_read(8, 2, day) || text[4] != '-' || text[7] != '-') {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date);
}

std::string to_string(std::chrono::sys_days date) {
  const std::chrono::year_month_day day(date);
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(day.year()), static_cast<unsigned>(day.month()),
                     static_cast<unsigned>(day.day()));
}

std::vector<Acceptance> read_accepted(const std::string& root) {
  const std::string path = root + "/" + kAcceptedFile;
  std::error_code error;
  std::vector<Acceptance> all;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, error))) return all;
  const toml::table file = parse_toml(path);
  only_keys(file, {"accepted"}, path);
  std::set<std::pair<std::string, std::string>> known;
  const toml::array* entries = tables_in(file, "accepted", path, "[[accepted]]");
  if (entries == nullptr) return all;
  for (const toml::node& node : *entries) {
    const std::string place = recapture::place_of(path, node);
    all.push_back(acceptance_in(*node.as_table(), place));
    if (!known.emplace(all.back().test, all.back().machine).second) {
      throw ExitError(Exit::Usage, fmt::format("{}: {} on {} is in it twice", place, all.back().test,
                                               escape_control(all.back().machine)));
    }
  }
  return all;
}

AcceptedTests::AcceptedTests(const std::vector<Acceptance>& entries, const std::string& started) {
  const auto date = date_of(started);
  if (!date) return;
  for (const Acceptance& entry : entries) {
    const std::string name =
        fmt::format("{}: the entry for {} on {}", kAcceptedFile, entry.test, escape_control(entry.machine));
    if (entry.until < *date) {
      notes_.push_back(fmt::format("{} has expired on {}", name, to_string(entry.until)));
    } else if (entry.until > *date + kLongestAcceptance) {
      notes_.push_back(fmt::format("{} does not count: {} is more than {} days after this night", name,
                                   to_string(entry.until), kLongestAcceptance.count()));
    } else {
      valid_.push_back(entry);
    }
  }
}

std::string AcceptedTests::words(const std::string& test, const std::string& machine) const {
  const auto found = std::ranges::find_if(valid_, [&](const Acceptance& entry) { return entry.is_of(test, machine); });
  return found == valid_.end() ? ""
                               : fmt::format("until {}: {}", to_string(found->until), escape_control(found->reason));
}

bool is_unjudged(const TestVerdict& row) {
  return severity_of(row.verdict) == Severity::Error && row.verdict != Verdict::Stale;
}

}  // namespace recapture::nightly
