// Names on the command line: the verb that is meant, and the nearest of what is misspelt.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace recapture::commands {

// The verbs of the application or of a group; none of a verb.
std::vector<const CLI::App*> verbs_of(const CLI::App& app);

// Where the words stand that are neither options nor the value of --root. The first name the verb.
std::vector<size_t> plain_words(const std::vector<std::string>& words);

// The verb that these words name, such as "nightly", "diff". Throws ExitError(Usage) with the nearest where there is
// none. Without words, or after the name of a group alone, it is the application or the group; words after a verb are
// its own.
CLI::App& find_verb(CLI::App& app, const std::vector<std::string>& words);

// "recapture nightly diff"
std::string full_name(const CLI::App& verb);

// Throws ExitError(Usage) with the nearest for the first of these words that is an option, and none of this verb.
void require_options(const CLI::App& verb, const std::vector<std::string>& words);

// Throws ExitError(Usage) with what there is below a group.
[[noreturn]] void refuse_group(const CLI::App& group);

}  // namespace recapture::commands
