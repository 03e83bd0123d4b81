#include "harness/report/note.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/base/escape.h"
#include "harness/base/text.h"

namespace recapture::report {
namespace {

using compare::NoteKind;

// "bundled: CUDA runtime 12.4 -> 13.2, NCCL not on record"
std::string render_libraries(const Json& libraries) {
  const auto version = [](const std::string& text) { return text.empty() ? std::string("not on record") : text; };
  std::vector<std::string> parts;
  for (const auto& [name, sides] : libraries.items()) {
    const std::string before = version(text_at(sides, "from")), now = version(text_at(sides, "to"));
    parts.push_back(fmt::format("{} {}", name, before == now ? now : fmt::format("{} -> {}", before, now)));
  }
  return escape_control("bundled: " + join(parts));
}

std::string note_words(const compare::Note& note) {
  switch (note.kind) {
    case NoteKind::EditedCases:
      return fmt::format("{} {} changed since these runs; both sides ran the same code of {}",
                         plural(note.count, "case"), note.count == 1 ? "has" : "have", note.count == 1 ? "it" : "them");
    case NoteKind::UnknownFixtures:
      return fmt::format("of {} the records do not say whether both sides ran the same fixtures",
                         plural(note.count, "case"));
    case NoteKind::OfRun:
    case NoteKind::RunOfSide:
      return fmt::format("{}: {}", note.side, note.text);
    case NoteKind::EndedEarly:
      return note.text == "interrupted" ? note.side + ": the run was interrupted"
                                        : fmt::format("{}: the run ended early: {}", note.side, note.text);
    case NoteKind::MachineLeftOut:
      return fmt::format(
          "both sides also ran on {}; --gpu or --driver chooses, --from-gpu, --to-gpu, --from-driver "
          "and --to-driver compare two",
          note.text);
    case NoteKind::LibraryLeftOut:
      return fmt::format("{} also ran with another {} than {}; {} chooses of {}", note.side, note.library, note.version,
                         note.option, fmt::join(note.versions, ", "));
    case NoteKind::NoRecordOfMachine:
      return fmt::format("{}: no record is of this machine; the nearest is {}", note.side, note.text);
    case NoteKind::NoRecordOfRelease:
      return fmt::format("{}: no expectation names a record of this release; those of {} count", note.side, note.text);
    case NoteKind::FilledIn:
      return fmt::format("{} {} compared on {}, where both sides have a result", plural(note.count, "test"),
                         note.count == 1 ? "is" : "are", note.text);
    case NoteKind::NoPrices:
      return "prices: none on record of " + note.side;
    case NoteKind::OtherBenchmarks:
      return "prices: not comparable, the two were measured by different benchmarks";
    case NoteKind::ComparedPrices:
      return fmt::format("prices: {} of {} compared, {} changed beyond their spread", note.count, note.all,
                         note.changed);
    case NoteKind::UnreadablePrices:
      break;
  }
  return "prices: " + note.text;
}

}  // namespace

bool is_qualification(const compare::Note& note) {
  switch (note.kind) {
    case NoteKind::OfRun:
    case NoteKind::EndedEarly:
    case NoteKind::RunOfSide:
    case NoteKind::MachineLeftOut:
    case NoteKind::LibraryLeftOut:
    case NoteKind::NoRecordOfMachine:
    case NoteKind::NoRecordOfRelease:
    case NoteKind::FilledIn:
      return true;
    case NoteKind::EditedCases:
    case NoteKind::UnknownFixtures:
    case NoteKind::NoPrices:
    case NoteKind::OtherBenchmarks:
    case NoteKind::ComparedPrices:
    case NoteKind::UnreadablePrices:
      break;
  }
  return false;
}

std::string render_note(const compare::Note& note) {
  return (is_qualification(note) ? "note: " : "") + escape_control(note_words(note));
}

std::vector<std::string> render_head(const compare::Comparison& comparison) {
  std::vector<std::string> head;
  if (comparison.facts.contains("libraries")) head.push_back(render_libraries(comparison.facts.at("libraries")));
  for (const compare::Note& note : comparison.notes) head.push_back(render_note(note));
  return head;
}

}  // namespace recapture::report
