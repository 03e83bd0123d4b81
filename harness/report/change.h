// A change of a test in words.
#pragma once
#include <string>
#include <string_view>

#include "harness/compare/compare.h"

namespace recapture::report {

// One sentence for a legend.
std::string_view meaning(compare::Consequence consequence);

// The release of an upstream change: "2.11", "2.11, which these records contradict".
std::string since_words(const compare::UpstreamChange& change);

// Both sides in words, for sentences such as kChangeSentence; never equal.
struct ChangeWords {
  std::string was;   // In the past tense: "raised CUDA error 900".
  std::string is;    // In the present: "works".
  std::string note;  // What follows the sentence; "" if there is nothing.
};
ChangeWords words_of(const compare::Change& change);
// Without a leading separator: "afterwards emptyCache(): keeps the memory".
std::string render_notes(const compare::Change& change);

// How both sides and a note make a sentence. The page fills it in too.
inline constexpr std::string_view kChangeSentence = "{was} in {from}; in {to} it {is}{note}";
// `from` and `to` are the names of the sides.
std::string render_change(const compare::Change& change, std::string_view from, std::string_view to);
// Without its notes.
std::string render_difference(const compare::Change& change, std::string_view from, std::string_view to);

// Why it is unknown: "not part of any run of 2.6.0".
std::string render_unknown(const compare::Unknown& unknown, std::string_view from, std::string_view to);

// A test's change, or why it is unknown; "" if it is the same.
std::string render_compared(const compare::ComparedTest& test, std::string_view from, std::string_view to);

}  // namespace recapture::report
