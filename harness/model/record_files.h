// Where the texts of records are: each in a file of its own, or together in the archive of their folder,
// records.tar.xz. A record in an archive has the path that its file would have, "reports/2.15.0/host.jsonl.gz". A file
// beside the archive takes the place of a record of that path in it, and must be of the same run. record.h has
// records_below().
#pragma once
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace recapture {

inline constexpr const char* kRecordArchive = "records.tar.xz";

// Whether the name is that of an archive of records.
bool is_record_archive(const std::filesystem::path& path);

// The paths of the records in an archive, without those that a file beside it replaces. Throws ExitError(Usage) if it
// cannot be read, or if such a file is another run.
std::vector<std::string> records_in(const std::filesystem::path& archive);

// Whether there is a file, or a record in an archive.
bool is_record_there(const std::string& path);

// A record's text, without a copy of what an archive has of it.
class RecordText {
 public:
  explicit RecordText(std::string text);
  RecordText(std::shared_ptr<const void> owner, std::string_view head, std::string_view rest)
      : owner_(std::move(owner)), head_(head), rest_(rest) {}

  // Whole lines, but for the last part.
  std::array<std::string_view, 2> parts() const { return {head_, rest_}; }
  // Keeps the parts.
  const std::shared_ptr<const void>& owner() const { return owner_; }
  std::string whole() const { return std::string(head_).append(rest_); }

 private:
  std::shared_ptr<const void> owner_;
  std::string_view head_, rest_;
};

// A record's text, unpacked; of an archive no more is than that needs. Throws ExitError(Usage) if there is none.
RecordText read_record_file(const std::string& path);
inline std::string record_text(const std::string& path) { return read_record_file(path).whole(); }

// Its first `lines` lines with their line ends, fewer if it is shorter. Of an archive, one or two need only its start.
std::string first_lines_of_record(const std::string& path, int lines);

// Whether a record begins with the whole lines of another one.
bool continues(std::string_view text, std::string_view other);

// The texts in an archive by the names of their files, "host.jsonl"; none if it does not exist.
std::map<std::string, std::string> texts_in(const std::string& archive);

// An archive with these texts, and before it is packed. The same texts give the same bytes.
std::string tar_of_records(const std::map<std::string, std::string>& texts);
std::string packed_records(const std::map<std::string, std::string>& texts);

}  // namespace recapture
