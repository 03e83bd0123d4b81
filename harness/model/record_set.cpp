#include "harness/model/record_set.h"

#include <fmt/format.h>

#include <filesystem>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/toml.h"

namespace recapture {

std::optional<RecordSet> record_set_in(const std::string& folder) {
  const std::string path = folder + "/" + kRecordSetFile;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  const toml::table table = parse_toml(path);
  const auto format = table["format"].value<int64_t>();
  if (!format) throw ExitError(Exit::Usage, path + ": 'format' must be a number");
  if (*format > kRecordSetFormat) {
    throw ExitError(Exit::Usage,
                    fmt::format("the records in {} are too new for this program: their format is {}, and it "
                                "reads {}; install a newer recapture, or remove them",
                                escape_control(folder), *format, kRecordSetFormat));
  }
  // Without a commit, as from a source archive, a set is older than any other.
  return RecordSet{folder, text_in(table, "made", path, false), text_in(table, "revision", path, false)};
}

}  // namespace recapture
