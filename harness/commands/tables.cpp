// recapture tables: the rules of judgement.
#include "harness/commands/commands.h"
#include "harness/record/output.h"
#include "harness/show/markdown.h"

namespace recapture {

Verb tables_verb(CLI::App& app) {
  auto* command = app.add_subcommand("tables", "The rules of judgement, as Markdown");
  return {command, [] {
            print("{}", rules_as_markdown());
            return Exit::AsExpected;
          }};
}

}  // namespace recapture
