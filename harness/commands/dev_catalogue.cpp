// recapture dev catalogue: prints the catalogue from the descriptions in the built cases.
#include <fstream>
#include <iterator>
#include <memory>

#include "harness/base/output.h"
#include "harness/commands/commands.h"
#include "harness/model/tree.h"
#include "harness/run/case_binaries.h"

namespace recapture::commands {
namespace {

struct DevCatalogueOptions {
  std::string release;
  bool check = false;
};

Exit catalogue(const run::Layout& places, DevCatalogueOptions options) {
  const Catalogue built = built_catalogue(places, options.release);
  if (!options.check) {
    print("{}", render_text(built));
    return Exit::AsExpected;
  }
  const std::string difference = first_difference(read_catalogue(places.root), built);
  if (!difference.empty()) {
    throw ExitError(Exit::Changed, difference + "; `recapture dev catalogue` prints the new one");
  }
  return Exit::AsExpected;
}

}  // namespace

Catalogue built_catalogue(const run::Layout& places, std::string& release) {
  const auto built = run::built_releases(places);
  if (!release.empty()) release = run::named_release(places, release);
  if (release.empty() && built.empty()) {
    throw ExitError(Exit::Infrastructure,
                    "no cases are built; in a clone `ci/suite` installs LibTorch and builds them");
  }
  if (release.empty()) release = built.back();
  const auto tree = cases_in_tree(places.root);
  Catalogue catalogue;
  for (const run::CaseBinary& binary : run::catalog(places, release, "")) {
    std::string source;
    if (const auto here = tree.find(binary.info.id); here != tree.end()) {
      std::ifstream file(here->second.path, std::ios::binary);
      source.assign(std::istreambuf_iterator<char>(file), {});
    }
    Json described = binary.info.to_json();
    described.update(binary.catalogued);
    catalogue.push_back(catalogue_case(described, source));
  }
  return catalogue;
}

Verb dev_catalogue_verb(CLI::App& dev, const std::string& root) {
  const auto options = std::make_shared<DevCatalogueOptions>();
  auto* command = dev.add_subcommand("catalogue", "Print the catalogue of the built cases");
  command->add_option("--release", options->release, "LibTorch release (default: the newest that is built)");
  command->add_flag("--check", options->check, "Print nothing; fail (1) if the committed file differs");
  command->footer("Exit codes: 0 done, 1 with --check: it differs, 2 wrong usage, 7 no cases are built.");
  return {command,
          [options, &root] { return catalogue(run::Layout::find(root), *options); },
          Signals::Children,
          {{"recapture dev catalogue | xz -9e > cases/catalogue.json.xz", "from the newest release that is built"},
           {"recapture dev catalogue --check --release 2.15.0", "whether the committed file is right"}}};
}

}  // namespace recapture::commands
