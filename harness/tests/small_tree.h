// A tree with few of the committed records, for tests whose duration depends on the number of records.
#pragma once
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "harness/base/file.h"
#include "harness/model/record.h"
#include "harness/model/record_files.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"
#include "harness/tests/this_tree.h"

namespace recapture {

class SmallTree {
 public:
  // Each record by its path below reports/. The rest of the tree is linked; of ci/ only the matrix is there if releases
  // are named, which it then has.
  explicit SmallTree(const std::vector<std::string>& records, const std::vector<std::string>& releases = {}) {
    namespace fs = std::filesystem;
    fs::create_directories(reports);
    if (!releases.empty()) fs::create_directories(folder + "/ci");
    for (const std::string& release : releases) {
      std::ofstream(folder + "/ci/matrix.toml", std::ios::app) << "[[release]]\nversion = '" << release << "'\n";
    }
    for (const auto& entry : fs::directory_iterator(kRoot)) {
      const std::string name = entry.path().filename().string();
      if (name != "reports" && name != "build" && name.front() != '.' && !fs::exists(folder + "/" + name)) {
        fs::create_symlink(entry.path(), folder + "/" + name);
      }
    }
    for (const std::string& record : records) {
      const std::string copy = reports + "/" + record;
      fs::create_directories(fs::path(copy).parent_path());
      const std::string source = kRoot + "/reports/" + record;
      if (is_record_name(record)) {
        write_file(copy, packed_by_gzip(record_text(source)));  // Most are in archives.
      } else {
        fs::copy(source, copy);
      }
    }
  }
  ~SmallTree() { std::filesystem::remove_all(folder); }
  SmallTree(const SmallTree&) = delete;
  SmallTree& operator=(const SmallTree&) = delete;

  std::string command(const std::string& arguments) const {
    return "'" RECAPTURE_BUILD "/recapture' --root '" + folder + "' " + arguments;
  }
  ShellResult recapture(const std::string& arguments) const { return shell(command(arguments)); }

  const std::string folder = std::filesystem::temp_directory_path().string() + "/recapture-small-" +
                             std::to_string(getpid()) + "-" + std::to_string(number_++);
  const std::string reports = folder + "/reports";

 private:
  inline static int number_ = 0;
};

}  // namespace recapture
