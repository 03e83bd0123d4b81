// Finds the verb of a command line, and suggests the nearest for a misspelt name.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace recapture::commands {

// The verbs of the application or of a group; empty for a verb.
std::vector<const CLI::App*> verbs_of(const CLI::App& app);

// The positions of words that are neither options nor the value of --root. The first ones name the verb.
std::vector<size_t> plain_words(const std::vector<std::string>& words);

// The verb that these words name, such as "nightly", "diff". Throws ExitError(Usage) with the nearest name if there is
// none. Without words, or after a group's name alone, it is the application or the group; words after a verb are its
// arguments.
CLI::App& find_verb(CLI::App& app, const std::vector<std::string>& words);

// "recapture nightly diff"
std::string full_name(const CLI::App& verb);

// Throws ExitError(Usage) with the nearest name for the first word that is an option but not of this verb.
void require_options(const CLI::App& verb, const std::vector<std::string>& words);

// Throws ExitError(Usage) with the verbs of a group.
[[noreturn]] void refuse_group(const CLI::App& group);

}  // namespace recapture::commands
