// What a reader of a comparison must know of its runs, as facts. report/note.h has the words.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace recapture::compare {

enum class NoteKind {
  EditedCases,        // `count` cases changed since the runs, which ran the same code of them.
  UnknownFixtures,    // Of `count` cases the records do not tell whether the runs used the same fixtures.
  OfRun,              // `text` is a note in a record of `side`.
  EndedEarly,         // A run of `side` has the end `text`.
  MachineLeftOut,     // Both sides also ran on `text`.
  LibraryLeftOut,     // `side` ran with several versions of a library.
  RunOfSide,          // Two runs of one release: `side` is `text`, a release and a path.
  NoRecordOfMachine,  // `side` was run on a machine that no record has; the nearest is `text`.
  NoRecordOfRelease,  // No record is of the release of `side`; expected is what is of `text`.
  FilledIn,           // `count` tests were compared on `text`.
  NoPrices,           // None on record of `side`.
  OtherBenchmarks,    // Prices that cannot be compared.
  ComparedPrices,     // `count` of `all`, of which `changed` changed.
  UnreadablePrices,   // `text` says why.
};
inline constexpr size_t kNoteKindCount = static_cast<size_t>(NoteKind::UnreadablePrices) + 1;

struct Note {
  NoteKind kind = NoteKind::OfRun;
  std::string side = {};  // Its name, or the user's word for it.
  std::string text = {};
  size_t count = 0, all = 0, changed = 0;
  std::string library = {}, option = {}, version = {};  // The version that is compared, and the option that chooses.
  std::vector<std::string> versions = {};               // All on record, sorted.

  bool operator==(const Note&) const = default;
};

}  // namespace recapture::compare
