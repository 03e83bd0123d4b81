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

// Throws ExitError(Usage) with the verb's usage where an argument is missing or one is too many.
void require_arguments(const CLI::App& verb, const CLI::ParseError& error, const std::vector<std::string>& rest);

// "recapture compare FROM TO"
std::string usage_of(const CLI::App& verb);

// "Examples:" and a line for each of a verb's.
struct Verb;
std::string examples_of(const Verb& verb);

// Puts "--" before the program of a verb such as blame, which follows `before` other arguments: from it on all words
// are the program's. The user may have left it out.
void separate_program(const CLI::App& verb, size_t before, std::vector<std::string>& words);

// Throws ExitError(Usage) with the verbs of a group.
[[noreturn]] void refuse_group(const CLI::App& group);

}  // namespace recapture::commands
