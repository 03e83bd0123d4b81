#include "harness/compare/prices.h"

#include <filesystem>
#include <optional>
#include <set>

#include "harness/verdict/price.h"

namespace recapture::compare {

std::optional<Prices> read_side_prices(const Side& side) {
  const Record& run = side.runs.front().record;
  if (!run.environment.kind.machine.is_plain()) return std::nullopt;
  std::set<std::string> folders;
  for (const JudgedRun& each : side.runs) {
    folders.insert(std::filesystem::path(each.record.path).parent_path().string());
  }
  std::vector<Prices> found;
  for (const std::string& folder : folders) {
    // Prices are beside the record; unreadable other files in its folder do not matter here.
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder.empty() ? "." : folder, error)) {
      const std::string path = entry.path().string();
      if (!path.ends_with(".prices") && !path.ends_with(".prices.gz")) continue;
      Prices prices = read_prices(path);
      bool is_its = true;
      for (const char* key : {"release", "gpu", "driver", "cuda_runtime"}) {
        is_its = is_its && prices.env(key) == run.env(key);
      }
      if (is_its) found.push_back(std::move(prices));
    }
  }
  if (found.empty()) return std::nullopt;
  return prices_by_machine(std::move(found)).front();
}

void compare_prices(const std::optional<Prices>& before, const std::optional<Prices>& now, Comparison& comparison) {
  if ((!before && !now) || (before && now && before->path == now->path)) return;
  if (!before || !now) {
    comparison.notes.push_back({.kind = NoteKind::NoPrices, .side = before ? comparison.to : comparison.from});
    return;
  }
  if (before->env("hash") != now->env("hash")) {
    comparison.notes.push_back({.kind = NoteKind::OtherBenchmarks});
    return;
  }
  size_t compared = 0;
  for (const PriceLine& line : now->lines) {
    for (const PriceLine& old : before->lines) {
      if (old.what != line.what || old.fixes != line.fixes) continue;
      if (std::min(old.with.size(), line.with.size()) < kFewestPairs) continue;
      if (!is_published(old) || !is_published(line)) continue;
      ++compared;
      if (changed(old, line)) comparison.prices.push_back({old, line});
    }
  }
  comparison.notes.push_back({.kind = NoteKind::ComparedPrices,
                              .count = compared,
                              .all = now->lines.size(),
                              .changed = comparison.prices.size()});
}

}  // namespace recapture::compare
