// Where the texts of records are: each in a file of its own, or together in the archive of their folder,
// records.tar.xz. A record in an archive has the path that its file would have, "reports/2.15.0/host.jsonl.gz". A file
// beside the archive takes the place of a record of that path in it, and must be of the same run. record.h has
// records_below().
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
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

// A record's text, unpacked. Throws ExitError(Usage) if there is none.
std::string record_text(const std::string& path);

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
