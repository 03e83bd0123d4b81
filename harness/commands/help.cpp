// recapture help: the same as --help.
#include <fmt/format.h>

#include <memory>

#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "harness/commands/names.h"
#include "harness/model/suggest.h"

namespace recapture::commands {

Verb help_verb(CLI::App& app) {
  const auto words = std::make_shared<std::vector<std::string>>();
  auto* command = app.add_subcommand("help", "Show the verbs, or the options of a verb");
  command->add_option("verb", *words, "A verb, such as nightly diff");
  command->footer("Exit codes: 0 done, 2 there is no such verb.");
  return {command,
          [words, &app] {
            const CLI::App& verb = find_verb(app, *words);
            const std::string name = join(*words, " ");
            if (!words->empty() && full_name(verb) != app.get_name() + " " + name) {
              throw ExitError(Exit::Usage, unknown_name("verb", name, {}, "see --help"));
            }
            app.clear();  // Without a verb the application prints its own help.
            print("{}", verb.help(verb.get_parent() == nullptr ? "" : full_name(*verb.get_parent())));
            return Exit::AsExpected;
          },
          Signals::Output,
          {{"recapture help compare", "its options, two examples and its exit codes"},
           {"recapture help nightly diff", "the same for a verb of nightly"}}};
}

}  // namespace recapture::commands
