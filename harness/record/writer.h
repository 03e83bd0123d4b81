// Writes a record line by line, so that a later crash loses no finished line.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <string>

#include "harness/model/record.h"

namespace recapture {

// A disk that is busy can take seconds.
enum class Durability { Fsynced, Buffered };

// Appends lines, each whole and, unless it is told not to wait, on the disk before the call returns. Throws
// ExitError(Infrastructure) if it can't, with what was written before left whole. A record has one writer at a time:
// the second one throws ExitError(Usage).
class RecordWriter {
 public:
  // A new record. What a run that was killed in its first line has left counts as none. `instead`: what the user can do
  // where there is another one.
  static RecordWriter create(const std::string& path, const std::string& instead = "name another");
  // One that is there. Nothing of it changes before the first write, which drops a last line that was cut.
  static RecordWriter append(const std::string& path);
  // A new record in the place of any other.
  static RecordWriter replace(const std::string& path);
  RecordWriter(RecordWriter&& other) noexcept;
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  void write(const Json& line, Durability wait = Durability::Fsynced) { write_all({&line, 1}, wait); }
  // These lines at once: a killed run leaves all of them or none.
  struct Lines {
    const Json* first;
    size_t count;
  };
  void write_all(Lines lines, Durability wait = Durability::Fsynced);
  // Whether no line of a record is there yet, and nothing else either.
  bool is_blank() const;
  // Once more, as a reader of the record must. Throws ExitError(Usage) if another has it now.
  void lock() const;

 private:
  RecordWriter(int fd, std::string path);
  off_t end_of_whole_lines() const;
  int fd_;
  std::string path_;
  off_t size_ = 0;  // Of the file, as it is if no other process writes.
};

}  // namespace recapture
