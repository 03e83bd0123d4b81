// Reads and writes files.
#pragma once
#include <string>

namespace recapture {

// Throws ExitError(Usage) with the path and one reason. Refuses anything but a regular file: a pipe may never end,
// /dev/zero never does.
std::string contents_of(const std::string& path);

// The same, unpacked if it is gzip, of one or several members; at most 256 MiB.
std::string unpacked_contents_of(const std::string& path);

// The first `lines` lines with their line ends, unpacked if needed; fewer if it is shorter or they are over 16 MiB.
std::string first_lines_of(const std::string& path, int lines);

// The same text always gives the same bytes, as with `gzip -9n`: no time, no name.
std::string packed_by_gzip(const std::string& text);

// Creates or overwrites the file. Throws ExitError(Infrastructure) on failure.
void write_file(const std::string& path, const std::string& text);

// Writes what --output names: the old file stays until all of the new text is on disk. Throws ExitError(Usage) for a
// folder, and if the old file is not a `kind` ("a page"), judged by its first `first_bytes` bytes.
void replace_output(const std::string& path, const std::string& text, size_t first_bytes, const std::string& kind);

}  // namespace recapture
