// ci/accepted.toml: each entry is true, needed and limited, and with it a night over the committed records is green.
#include "harness/nightly/accepted.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "harness/base/file.h"
#include "harness/model/catalogue.h"
#include "harness/model/record_files.h"
#include "harness/model/release.h"
#include "harness/store/select.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/tests/this_tree.h"
#include "harness/verdict/judge.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The records of the reason exist, and have no clear result of the test.
TEST(Accepted, EveryEntry_NamesARecordThatDoesNotJudgeTheTest) {
  const std::vector<Acceptance> all = read_accepted(kRoot);
  ASSERT_THAT(all, Not(IsEmpty()));
  std::set<std::string> tests;
  for (const CatalogueCase& one : read_catalogue(kRoot)) {
    for (const CatalogueTest& test : one.tests) tests.insert(one.id + "." + test.name);
  }
  for (const Acceptance& entry : all) {
    SCOPED_TRACE(fmt::format("ci/accepted.toml:{}: {} on {}", entry.line, entry.test, entry.machine));
    const bool is_pattern = entry.test.find('*') != std::string::npos;
    EXPECT_TRUE(is_pattern || entry.test.starts_with("operators.") || tests.count(entry.test) != 0) << "no such test";
    const size_t at = entry.reason.find("reports/");
    if (at == std::string::npos) continue;  // An issue.
    const std::string path = kRoot + "/" + entry.reason.substr(at, entry.reason.find_first_of(": ", at) - at);
    const std::string packed = is_record_there(path) ? path : path + ".gz";
    ASSERT_TRUE(is_record_there(packed)) << packed;
    const Record record = read_record(packed);
    EXPECT_EQ(accepted_name(record.environment), entry.machine);
    bool is_judged = false;
    for (const TestVerdict& row : judge_record(record, {})) {
      is_judged =
          is_judged || (entry.is_of(row.test, entry.machine) && row.ran && row.verdict != Verdict::Inconclusive &&
                        row.verdict != Verdict::Unavailable && row.verdict != Verdict::Missing);
    }
    EXPECT_FALSE(is_judged) << "that record judges it";
  }
}

// By the commit that last changed the line.
TEST(Accepted, EveryEntry_EndsAtMost180DaysAfterItsCommit) {
  const ShellResult blame = shell("git -C '" + kRoot + "' blame --line-porcelain -- ci/accepted.toml 2>/dev/null");
  if (blame.code != 0) GTEST_SKIP() << "this clone has no history";
  std::istringstream lines(blame.out);
  std::chrono::sys_days committed;
  size_t entries = 0;
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kTime = "committer-time ", kUntil = "\tuntil = ";
    if (line.starts_with(kTime)) {
      committed = std::chrono::floor<std::chrono::days>(
          std::chrono::sys_seconds(std::chrono::seconds(std::stoll(line.substr(kTime.size())))));
    }
    if (!line.starts_with(kUntil)) continue;
    const auto until = date_of(line.substr(kUntil.size()));
    ASSERT_TRUE(until) << line;
    EXPECT_LE(*until, committed + kLongestAcceptance) << line;
    ++entries;
  }
  EXPECT_EQ(entries, read_accepted(kRoot).size());
}

// As one run would have them: of each test of today's code the newest line of a plain run on the GPU, or else of one
// without a GPU. On the machine of the largest run: a test that lacked a second GPU there would be missing on one with
// two.
FakeRecord whole_record(const std::string& release, const std::string& gpu) {
  std::vector<Record> records = read_records_below(kRoot + "/reports/" + release);
  sort_by_time(records);
  std::map<std::string, Json> lines, cases;
  std::map<std::string, std::vector<Json>> again;
  Json environment;
  size_t most = 0;
  const Rules rules = rules_of(kRoot);
  for (const bool has_gpu : {false, true}) {
    for (const Record& record : records) {
      const MachineId& machine = record.environment.machine;
      if (machine.gpu != (has_gpu ? gpu : "") || record.broken() != Break::Nothing || !machine.is_plain()) continue;
      if (has_gpu && record.tests.size() > most) {
        most = record.tests.size();
        environment = record.environment.json();
      }
      for (const TestRecord& test : record.tests) {
        if (rules.stale(record, test.case_id())) continue;
        if (test.skip_reason() != SkipReason::None && (!has_gpu || lines.count(test.id()) != 0)) continue;
        lines[test.id()] = test.json();
        cases[test.case_id()] = record.cases.at(test.case_id()).to_json();
        again[test.id()].clear();
        const auto repeated = record.confirmations.find(test.id());
        if (repeated == record.confirmations.end()) continue;
        for (const TestRecord& each : repeated->second) again[test.id()].push_back(each.json());
      }
    }
  }
  Json plan = Json::array();
  for (const auto& [test, line] : lines) plan.push_back(test);
  environment["shard"] = "1/1";
  FakeRecord record;
  record.environment = environment;
  record.tests = {{{"plan", plan}}};
  for (const auto& [id, line] : cases) record.tests.push_back(line);
  for (const auto& [test, line] : lines) {
    record.tests.push_back(line);
    for (const Json& each : again[test]) record.tests.push_back(each);
  }
  return record;
}

TEST(Accepted, NightOverTheRecordsOfTheNewestRelease_IsGreen) {
  const std::string release = read_matrix(kRoot).back(), gpu = "NVIDIA H200";
  const std::string folder = ::testing::TempDir() + "recapture-accepted-" + std::to_string(getpid());
  fs::create_directories(folder + "/from");
  fs::create_directories(folder + "/tree/ci");
  fs::copy(kRoot + "/ci/matrix.toml", folder + "/tree/ci/matrix.toml");
  const FakeRecord record = whole_record(release, gpu);
  {
    std::ofstream file(folder + "/from/a.jsonl");
    file << record.environment.dump() << "\n";
    for (const Json& line : record.tests) file << line.dump() << "\n";
    file << R"({"end":"complete"})"
         << "\n";
  }
  std::ofstream(folder + "/plan.json") << Json::array({{{"release", release}, {"gpu", "H200"}, {"shard", "1/1"}}});
  // Without a catalogue, a run of these tests is a complete one.
  const std::string program = "'" RECAPTURE_BUILD "/recapture' --root '" + folder + "/tree' ";
  const ShellResult collected = shell(program + "nightly collect '" + folder + "/nights/1' '" + folder +
                                      "/from' --plan '" + folder + "/plan.json'");
  ASSERT_EQ(collected.code, 0) << collected.out;
  fs::create_directory_symlink(kRoot + "/cases", folder + "/tree/cases");
  const std::string diff = program + "nightly diff --first '" + folder + "/nights'";
  const auto accepted = static_cast<size_t>(std::ranges::count_if(
      read_accepted(kRoot), [&](const Acceptance& entry) { return entry.machine == release + ", " + gpu; }));
  const ShellResult without = shell(diff);
  EXPECT_EQ(without.code, accepted > 0 ? 6 : 0) << without.out;
  fs::copy(kRoot + "/ci/accepted.toml", folder + "/tree/ci/accepted.toml");
  const ShellResult with = shell(diff);
  EXPECT_EQ(with.code, 0) << with.out;
  const std::string counted = accepted > 0 ? fmt::format(" {} accepted", accepted) : " accepted";
  EXPECT_EQ(with.out.find(counted) != with.out.npos, accepted > 0) << with.out;
  fs::remove_all(folder);
}

}  // namespace
}  // namespace recapture
