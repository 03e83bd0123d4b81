// recapture dev pack: moves the single records of a release into its archive.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "harness/base/escape.h"
#include "harness/base/file.h"
#include "harness/base/output.h"
#include "harness/base/text.h"
#include "harness/commands/commands.h"
#include "harness/model/record_files.h"
#include "harness/model/record_text.h"
#include "harness/run/layout.h"

namespace recapture::commands {
namespace fs = std::filesystem;
namespace {

// The single records of a folder, not of those below it.
std::vector<std::string> single_records(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (is_record_name(at->path().string())) paths.push_back(at->path().string());
  }
  if (error) throw ExitError(Exit::Infrastructure, fmt::format("{}: cannot read it: {}", folder, error.message()));
  std::ranges::sort(paths);
  return paths;
}

// Adds a record under its file's name. A run that went on replaces its beginning; a copy is there already.
void add(std::map<std::string, std::string>& texts, const std::string& path) {
  const std::string text = record_text(path);
  read_record_text(text, path);  // Throws for what is no record.
  fs::path name = fs::path(path).filename();
  if (name.extension() == ".gz") name = name.stem();
  const auto there = texts.find(name);
  if (there == texts.end()) {
    const bool is_copy = std::ranges::any_of(texts, [&](const auto& other) { return other.second == text; });
    if (!is_copy) texts.emplace(name, text);
  } else if (continues(text, there->second)) {
    there->second = text;
  } else if (!continues(there->second, text)) {
    throw ExitError(Exit::Usage, fmt::format("{}: {} has another run of this name; give the file another name",
                                             escape_control(path), kRecordArchive));
  }
}

void pack_folder(const std::string& folder) {
  const std::vector<std::string> paths = single_records(folder);
  const std::string archive = folder + "/" + kRecordArchive, part = archive + ".part";
  if (paths.empty()) {
    print("{}: nothing to pack\n", folder);
    return;
  }
  std::map<std::string, std::string> texts = texts_in(archive);
  for (const std::string& path : paths) add(texts, path);
  write_file(part, packed_records(texts));
  std::error_code error;
  const bool is_whole = texts_in(part) == texts;  // The files go only if all of them can be read from it.
  if (is_whole) fs::rename(part, archive, error);
  if (!is_whole || error) {
    fs::remove(part);
    throw ExitError(Exit::Infrastructure, fmt::format("{}: cannot write it", archive));
  }
  for (const std::string& path : paths) fs::remove(path);
  print("{}: {}, {} of them new\n", archive, plural(texts.size(), "record"), paths.size());
}

// The folders of these releases, or of all.
std::vector<std::string> folders_of(const std::string& reports, const std::vector<std::string>& releases) {
  std::vector<std::string> folders;
  for (const std::string& release : releases) {
    const std::string folder = reports + "/" + release;
    if (release.find('/') != release.npos || release.starts_with('.') || !fs::is_directory(folder)) {
      throw ExitError(Exit::Usage, fmt::format("there are no records of {} in {}", escape_control(release), reports));
    }
    folders.push_back(folder);
  }
  if (!releases.empty() || !fs::is_directory(reports)) return folders;
  for (const auto& entry : fs::directory_iterator(reports)) {
    if (entry.is_directory() && !single_records(entry.path().string()).empty())
      folders.push_back(entry.path().string());
  }
  std::ranges::sort(folders);
  return folders;
}

}  // namespace

Verb dev_pack_verb(CLI::App& dev, const std::string& root) {
  const auto releases = std::make_shared<std::vector<std::string>>();
  auto* command =
      dev.add_subcommand("pack", "Move the single records below reports/ into the archives of their releases");
  command->add_option("releases", *releases, "Folders of reports/ (default: all)");
  command->footer("Exit codes: 0 done, 2 wrong usage, or a record that may not be packed, 7 it cannot be written.");
  return {command,
          [releases, &root] {
            const std::string reports = run::Layout::find(root).reports();
            const std::vector<std::string> folders = folders_of(reports, *releases);
            if (folders.empty()) print("{}: nothing to pack\n", reports);
            for (const std::string& folder : folders) pack_folder(folder);
            return Exit::AsExpected;
          },
          Signals::Output,
          {{"recapture dev pack", "what lies beside the archives"}, {"recapture dev pack 2.15.0", "of one release"}}};
}

}  // namespace recapture::commands
