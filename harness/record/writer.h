// Writes a record line by line, so that what was finished stays whatever happens next.
#pragma once
#include <string>

#include "harness/record/record.h"

namespace recapture {

// Appends lines, each whole and on the disk before the call returns. Throws Stop(Infrastructure) if it can't, with what
// was written before left whole.
class RecordWriter {
 public:
  static RecordWriter create(const std::string& path);  // Refuses to overwrite.
  static RecordWriter append(const std::string& path);  // Drops a last line that was cut.
  RecordWriter(RecordWriter&& other) noexcept;
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;
  void write(const Json& line);

 private:
  RecordWriter(int fd, std::string path);
  int fd_;
  std::string path_;
};

}  // namespace recapture
