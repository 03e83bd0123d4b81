#include "harness/model/record_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <tuple>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/tar.h"
#include "harness/base/xz.h"
#include "harness/model/record.h"

namespace recapture {
namespace fs = std::filesystem;
namespace {

// The members of an archive, in this order: the format, of each record its first lines, of each the rest. So a
// question about which runs there are needs only the beginning.
constexpr std::string_view kFormat = "format", kFormatText = "1\n", kHead = "head/", kRest = "rest/";
constexpr int kHeadLines = 2;                   // The environment and the plan.
constexpr size_t kMostBytes = size_t{1} << 30;  // Fifty times the largest below reports/.
constexpr std::string_view kPacked = ".gz";

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() > end.size() && text.substr(text.size() - end.size()) == end;
}

// A member's name becomes part of a path that is shown and looked up, never of one that is opened.
bool can_be_member(std::string_view name) {
  return ends_with(name, ".jsonl") && name.find('/') == name.npos && name.front() != '.' &&
         escape_control(std::string(name)) == name;
}

size_t end_of_lines(std::string_view text, int lines) {
  size_t end = 0;
  for (; lines > 0; --lines) {
    const size_t at = text.find('\n', end);
    if (at == text.npos) return text.size();
    end = at + 1;
  }
  return end;
}

// Is read from its beginning as far as it is needed.
class Archive {
 public:
  explicit Archive(std::string path) : path_(std::move(path)) {}

  // The first lines of each record, by name.
  const std::map<std::string, std::string>& heads() {
    const std::scoped_lock lock(mutex_);
    take_until([&] { return has_heads_ || begins_rests(); });
    has_heads_ = true;
    return heads_;
  }

  bool has(const std::string& name) { return heads().count(name) != 0; }

  // The head and the rest of one of its records.
  std::pair<std::string_view, std::string_view> text_of(const std::string& name) {
    const std::string& head = heads().at(name);
    const std::scoped_lock lock(mutex_);
    take_until([&] { return rests_.count(name) != 0; });
    return {head, rests_.at(name)};
  }

  // Reads to the end, and so compares all with the checksum.
  void verify() {
    heads();
    const std::scoped_lock lock(mutex_);
    take_until([&] { return is_at_end_; });
    while (tar_->unpack_more()) continue;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw ExitError(Exit::Usage, fmt::format("{}: not an archive of records: {}", escape_control(path_), why));
  }

  template <class Enough>
  void take_until(const Enough& is_enough) {
    if (tar_ == nullptr) tar_ = std::make_unique<XzText>(contents_of(path_), path_, kMostBytes);
    while (!is_enough()) {
      if (take_member()) continue;
      const size_t before = tar_->text().size();
      if (!tar_->unpack_more() && tar_->text().size() == before) refuse("it is cut");
    }
  }

  // False if more must be unpacked for the next one.
  bool take_member() {
    if (is_at_end_) refuse("it is cut");
    const auto entry = next_entry();
    if (!entry) return false;
    if (at_ == 0) {
      require_format(*entry);
    } else if (entry->name.empty()) {
      if (rests_.size() != heads_.size() && has_heads_) refuse("it is cut");
      is_at_end_ = has_heads_ = true;
      return true;
    } else if (entry->name.starts_with(kHead)) {
      const std::string name = name_of(entry->name, kHead);
      if (has_heads_) refuse("it has a head after a rest");
      if (!heads_.emplace(name, entry->text).second) refuse("it has " + name + " twice");
    } else if (entry->name.starts_with(kRest)) {
      const std::string name = name_of(entry->name, kRest);
      if (heads_.count(name) == 0 || !rests_.emplace(name, entry->text).second) refuse("it has no head of " + name);
    } else {
      refuse(fmt::format("it has a member '{}'", escape_control(std::string(entry->name))));
    }
    at_ = entry->next;
    return true;
  }

  std::string name_of(std::string_view member, std::string_view prefix) const {
    const std::string_view name = member.substr(prefix.size());
    if (!can_be_member(name)) refuse(fmt::format("a member has the name '{}'", escape_control(std::string(member))));
    return std::string(name);
  }

  std::optional<TarEntry> next_entry() const {
    try {
      return tar_entry(tar_->text(), at_);
    } catch (const std::runtime_error& wrong) {
      refuse(wrong.what());
    }
  }

  // Whether the first rest comes next: its name is enough.
  bool begins_rests() const { return tar_->text().substr(std::min(at_, tar_->text().size())).starts_with(kRest); }

  void require_format(const TarEntry& entry) const {
    if (entry.name != kFormat) refuse("its first member is not its format");
    if (entry.text == kFormatText) return;
    throw ExitError(Exit::Usage, fmt::format("{}: its format is {}, and this program reads {}; a newer one reads it",
                                             escape_control(path_), escape_control(first_line(entry.text)),
                                             first_line(kFormatText)));
  }

  static std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

  std::string path_;
  std::mutex mutex_;
  std::unique_ptr<XzText> tar_;
  size_t at_ = 0;  // Where the next member begins.
  bool has_heads_ = false, is_at_end_ = false;
  std::map<std::string, std::string> heads_;  // Does not change once it has all.
  std::map<std::string, std::string_view> rests_;
};

// The archive at this path as it is now; null if there is none. Each is unpacked once in a process.
std::shared_ptr<Archive> archive_at(const std::string& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) return nullptr;
  using Stamp = std::tuple<dev_t, ino_t, off_t, time_t, long>;
  const Stamp stamp(about.st_dev, about.st_ino, about.st_size, about.st_mtim.tv_sec, about.st_mtim.tv_nsec);
  static std::mutex mutex;
  static std::map<std::string, std::pair<Stamp, std::shared_ptr<Archive>>> read;
  const std::scoped_lock lock(mutex);
  auto& [then, archive] = read[path];
  if (archive == nullptr || then != stamp) {
    then = stamp;
    archive = std::make_shared<Archive>(path);
  }
  return archive;
}

std::string name_in_archive(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  return ends_with(name, kPacked) ? name.substr(0, name.size() - kPacked.size()) : "";
}

std::string archive_beside(const std::string& path) { return (fs::path(path).parent_path() / kRecordArchive).string(); }

bool is_file(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

// The archive that has the record; null if the record is a file of its own, or does not exist.
std::shared_ptr<Archive> archive_with(const std::string& path) {
  const std::string name = name_in_archive(path);
  if (name.empty() || is_file(path)) return nullptr;
  auto archive = archive_at(archive_beside(path));
  return archive != nullptr && archive->has(name) ? archive : nullptr;
}

void refuse_archive(const std::string& path) {
  if (!is_record_archive(path)) return;
  const auto archive = archive_at(path);
  if (archive == nullptr) return;
  const auto& heads = archive->heads();
  const std::string one = heads.empty() ? "" : ", or one of them: " + heads.begin()->first + std::string(kPacked);
  throw ExitError(Exit::Usage, fmt::format("{}: it is an archive of records; name its folder{}", escape_control(path),
                                           escape_control(one)));
}

}  // namespace

// Declared in record.h.
bool is_record_name(const std::string& path) { return ends_with(path, ".jsonl") || ends_with(path, ".jsonl.gz"); }

bool is_record_archive(const fs::path& path) { return path.filename() == kRecordArchive; }

std::vector<std::string> records_below(const std::string& folder) {
  std::vector<std::string> paths;
  if (!fs::is_directory(folder)) return paths;
  std::error_code error;
  std::string last = folder;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    last = at->path().string();
    if (is_record_name(last)) paths.push_back(last);
    if (!is_record_archive(last)) continue;
    try {
      std::ranges::move(records_in(last), std::back_inserter(paths));
    } catch (const ExitError&) {
      paths.push_back(last);  // Reading it reports the error.
    }
  }
  if (error) {
    throw ExitError(Exit::Infrastructure, fmt::format("{}: cannot read it: {}", escape_control(last), error.message()));
  }
  std::ranges::sort(paths);
  return paths;
}

std::vector<std::string> records_in(const fs::path& archive) {
  std::vector<std::string> paths;
  const auto its = archive_at(archive.string());
  if (its == nullptr) return paths;
  for (const auto& [name, head] : its->heads()) {
    const std::string path = (archive.parent_path() / name).string() + std::string(kPacked);
    if (!is_file(path)) {
      paths.push_back(path);
    } else if (fs::is_regular_file(path) && first_lines_of(path, 1) != head.substr(0, head.find('\n') + 1)) {
      throw ExitError(Exit::Usage, fmt::format("{}: {} has another run of this name; give the file another name",
                                               escape_control(path), kRecordArchive));
    }
  }
  return paths;
}

bool is_record_there(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error) || archive_with(path) != nullptr;
}

RecordText::RecordText(std::string text) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  owner_ = owner;
  rest_ = *owner;
}

RecordText read_record_file(const std::string& path) {
  if (const auto archive = archive_with(path)) {
    const auto [head, rest] = archive->text_of(name_in_archive(path));
    return {archive, head, rest};
  }
  refuse_archive(path);
  return RecordText(unpacked_contents_of(path));
}

std::string first_lines_of_record(const std::string& path, int lines) {
  if (const auto archive = archive_with(path)) {
    const std::string name = name_in_archive(path);
    const std::string text = lines <= kHeadLines ? archive->heads().at(name) : record_text(path);
    return text.substr(0, end_of_lines(text.substr(0, text.rfind('\n') + 1), lines));
  }
  refuse_archive(path);
  return first_lines_of(path, lines);
}

bool continues(std::string_view text, std::string_view other) {
  return text.starts_with(other.substr(0, other.rfind('\n') + 1));
}

std::map<std::string, std::string> texts_in(const std::string& archive) {
  std::map<std::string, std::string> texts;
  if (const auto its = archive_at(archive)) {
    its->verify();
    for (const auto& [name, head] : its->heads()) texts[name] = std::string(head).append(its->text_of(name).second);
  }
  return texts;
}

std::string tar_of_records(const std::map<std::string, std::string>& texts) {
  std::vector<TarMember> members{{std::string(kFormat), std::string(kFormatText)}};
  for (const auto& [name, text] : texts) {
    if (!can_be_member(name)) throw ExitError(Exit::Usage, escape_control(name) + ": not a record's name");
    members.push_back({std::string(kHead) + name, text.substr(0, end_of_lines(text, kHeadLines))});
  }
  for (const auto& [name, text] : texts) {
    members.push_back({std::string(kRest) + name, text.substr(end_of_lines(text, kHeadLines))});
  }
  return tar_of(members);
}

std::string packed_records(const std::map<std::string, std::string>& texts) {
  return packed_by_xz(tar_of_records(texts));
}

}  // namespace recapture
