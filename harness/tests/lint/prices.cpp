#include "harness/tests/lint/prices.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "harness/base/file.h"
#include "harness/base/regex.h"
#include "harness/model/prices.h"
#include "harness/model/record.h"

namespace recapture::lint {
namespace fs = std::filesystem;

std::vector<std::string> price_errors(const std::string& root, const Catalogue& catalogue) {
  static const RE2 kFix(R"re("(\w+\.Fix\w*)")re");
  std::set<std::string> fixes;
  for (const CatalogueCase& one : catalogue) {
    for (const CatalogueTest& test : one.tests) {
      if (!test.fix.empty()) fixes.insert(one.id + "." + test.name);
    }
  }
  std::vector<std::string> errors;
  std::set<std::string> priced;
  for (const auto& entry : fs::directory_iterator(root + "/benchmarks")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string source = contents_of(entry.path().string());
    for (const Match& match : all_matches(source, kFix)) {
      const std::string fix(match[1]);
      priced.insert(fix);
      if (fixes.count(fix) != 0) continue;
      const auto line = std::count(source.data(), match[0].data(), '\n') + 1;
      errors.push_back(fmt::format("benchmarks/{}:{}: {} is not a fix of the catalogue",
                                   entry.path().filename().string(), line, fix));
    }
  }
  for (const std::string& path : prices_below(root + "/reports")) {
    const Prices prices = read_prices(path);
    const std::string place = fs::path(path).lexically_relative(root + "/reports").string();
    const fs::path expected = fs::path(report_path(prices.environment)).replace_extension(kPricesExtension);
    const fs::path unpacked = place.ends_with(".gz") ? fs::path(place).replace_extension() : fs::path(place);
    if (!is_report_path(fs::path(unpacked).replace_extension(".jsonl"), prices.environment))
      errors.push_back(fmt::format("reports/{}: belongs at reports/{}", place, expected.string()));
    for (const PriceLine& line : prices.lines) {
      for (const std::string& fix : line.fixes) {
        if (priced.count(fix) == 0) errors.push_back(fmt::format("reports/{}: no benchmark prices {}", place, fix));
      }
    }
  }
  return errors;
}

}  // namespace recapture::lint
