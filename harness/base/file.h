// Whole files.
#pragma once
#include <string>

namespace recapture {

// Throws ExitError(Usage) with the path and one reason. Anything but a regular file is refused: a pipe may never end,
// and /dev/zero does not.
std::string contents_of(const std::string& path);

// The same, unpacked if it is packed by gzip, in one piece or in several; no more than a gigabyte.
std::string unpacked_contents_of(const std::string& path);

// Its first lines, likewise, each with its end; fewer if it has fewer, or as far as it can be read.
std::string first_lines_of(const std::string& path, int lines);

// The same bytes for the same text, as `gzip -9n` writes them: no time, no name.
std::string packed_by_gzip(const std::string& text);

// Makes the file, or puts the text in the place of what it had. Throws ExitError(Infrastructure) where it cannot.
void write_file(const std::string& path, const std::string& text);

// Likewise for what --output names: what is there stays whole until all of the new text is on the disk. Throws
// ExitError(Usage) for a folder, and for a file that is no `kind` ("page"): its first bytes, so many, differ from the
// text's.
void replace_output(const std::string& path, const std::string& text, size_t first_bytes, const std::string& kind);

}  // namespace recapture
