// Runs one test of the case and says in one line what came of it: REPRODUCED (1), NOT REPRODUCED (0), COULD NOT RUN
// (2).
#include <unistd.h>

#include <cstring>
#include <iostream>
#include <memory>

#include "harness/case/case.h"
#include "harness/case/cuda_errors.h"

namespace recapture {

static std::string result, words;  // What REPRODUCES found.

void record(const std::string& key, const std::string& value) {
  if (key != key::seen && key != key::documented && key != key::healthy) std::cout << key << ": " << value << "\n";
}
bool recording() { return false; }
bool trigger_on() { return true; }
bool remedy() { return true; }
bool breaks_remedies() { return false; }

void reproduces(const std::string& seen, std::string documented, const std::string& healthy, const char*, int) {
  result = matches(documented, seen) ? "REPRODUCED" : matches(healthy, seen) ? "NOT REPRODUCED" : "COULD NOT RUN";
  words = result == "COULD NOT RUN" ? seen + ", which is neither the failure, " + documented + ", nor health" : seen;
}
void reproduces_at_rate(int hits, int tries, const char*, int) {
  result = hits > 0 ? "REPRODUCED" : "NOT REPRODUCED";
  words = std::to_string(hits) + " of " + std::to_string(tries) + " tries";
}

}  // namespace recapture

// Without static destructors: after a failed capture they run into what it left behind.
[[noreturn]] static void leave(const std::string& result, const std::string& words) {
  std::cout << result << ": " << words << std::endl;
  _exit(result == "REPRODUCED" ? 1 : result == "NOT REPRODUCED" ? 0 : 2);
}

int main(int count, char** arguments) {
  using namespace recapture;
  const std::string wanted = count > 1 ? arguments[1] : "";
  for (const ::testing::Registered& test : ::testing::tests()) {
    if (test.name != wanted) continue;
    ::testing::UnitTest::GetInstance()->current = ::testing::TestInfo(wanted);
    ::testing::Outcome& outcome = ::testing::outcome;
    std::unique_ptr<::testing::Test> running(test.make());
    try {
      running->SetUp();
      if (!outcome.skips && outcome.failures.empty()) running->TestBody();
      running->TearDown();
    } catch (const std::exception& e) {
      outcome.failures.push_back(std::string("an exception: ") + e.what());
    }
    (void)running.release();
    if (outcome.skips) leave("COULD NOT RUN", outcome.skipped);
    for (const std::string& failure : outcome.failures) std::cout << failure << "\n";
    const bool reproduces = kind_of(wanted) == Kind::Reproduces;
    if (reproduces && result.empty()) leave("COULD NOT RUN", "it did not come to its end");
    if (reproduces && result == "REPRODUCED" && !outcome.failures.empty()) {
      leave("COULD NOT RUN", words + " was seen, but " + outcome.failures.front());
    }
    if (reproduces) leave(result, words);
    if (outcome.failures.empty()) leave("NOT REPRODUCED", wanted + " holds");
    leave("REPRODUCED", wanted + " does not hold");
  }
  leave("COULD NOT RUN", "there is no test " + wanted);
}
