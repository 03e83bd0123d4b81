// Writes a record line by line, so that a crash loses no complete line.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <string>

#include "harness/model/record.h"

namespace recapture {

// Fsynced waits for the disk, which can take seconds.
enum class Durability { Fsynced, Buffered };

// Appends lines atomically; with Fsynced, each is on disk before the call returns. On failure throws
// ExitError(Infrastructure) and keeps earlier lines intact. A record has one writer at a time: a second one throws
// ExitError(Usage).
class RecordWriter {
 public:
  // A new record. The remains of a run that was killed in its first line are overwritten. `instead` tells the user what
  // to do if there is a record.
  static RecordWriter create(const std::string& path, const std::string& instead = "name another");
  // An existing one. The first write removes an incomplete last line; nothing changes before.
  static RecordWriter append(const std::string& path);
  // A new record that replaces any other.
  static RecordWriter replace(const std::string& path);
  RecordWriter(RecordWriter&& other) noexcept;
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  void write(const Json& line, Durability wait = Durability::Fsynced) { write_all({&line, 1}, wait); }
  // Writes these lines at once: a killed run leaves all of them or none.
  struct Lines {
    const Json* first;
    size_t count;
  };
  void write_all(Lines lines, Durability wait = Durability::Fsynced);
  // Whether the file has no complete line.
  bool is_blank() const;
  // Takes the lock again after the record was read. Throws ExitError(Usage) if another process has it.
  void lock() const;

 private:
  RecordWriter(int fd, std::string path);
  off_t end_of_whole_lines() const;
  int fd_;
  std::string path_;
  off_t size_ = 0;  // Of the file, if no other process writes.
};

}  // namespace recapture
