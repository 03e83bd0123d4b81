// recapture list: what can be run.
#include <fmt/format.h>

#include <memory>

#include "harness/commands/commands.h"
#include "harness/judge/version.h"
#include "harness/run/catalog.h"
#include "harness/run/places.h"

namespace recapture {
namespace {

struct Options {
  std::string release, libtorch;
  bool json = false;
};

Json as_json(const CaseInfo& info) {
  Json tests = Json::array();
  for (const std::string& test : info.tests) {
    const auto kind = kind_of(test);
    tests.push_back({{"name", test}, {"kind", kind ? word(*kind) : "unknown"}});
  }
  return {{"id", info.id},         {"family", info.family},     {"title", info.title},       {"sources", info.sources},
          {"nature", info.nature}, {"fidelity", info.fidelity}, {"needs", info.needs_words}, {"tests", tests}};
}

Exit list(const Places& places, Options options) {
  const auto built = built_releases(places);
  if (options.release.empty() && built.empty()) {
    throw Stop(Exit::Infrastructure, "no cases are built; `ci/suite` gets LibTorch and builds them");
  }
  if (options.release.empty()) options.release = built.back();
  Json all = Json::array();
  size_t tests = 0;
  for (const CaseBinary& binary : catalog(places, options.release, options.libtorch)) {
    const CaseInfo& info = binary.info;
    all.push_back(as_json(info));
    tests += info.tests.size();
    if (!options.json) fmt::print("{:<12} {:<46} {:<10} {}\n", info.family, info.id, info.nature, info.title);
  }
  if (options.json) {
    fmt::print("{}\n", all.dump(1));
  } else {
    fmt::print("{} cases, {} tests, built for {}{}\n", all.size(), tests,
               is_version(options.release) ? "LibTorch " : "", options.release);
  }
  return Exit::AsExpected;
}

}  // namespace

Verb list_verb(CLI::App& app, const std::string& root) {
  const auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("list", "What can be run: every case that is built, a line each");
  command->add_option("--release", options->release, "LibTorch release (default: the newest that is built)");
  command->add_option("--libtorch", options->libtorch, "Site-packages folder to load LibTorch from");
  command->add_flag("--json", options->json, "A JSON array");
  return {command, [options, &root] { return list(Places::find(root), *options); }};
}

}  // namespace recapture
