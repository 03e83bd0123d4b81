// Records apart from the program: beside an installation, and by --records.
#include "harness/model/record_set.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "harness/tests/shell.h"
#include "harness/tests/small_tree.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// An installation with the records of 2.6.0, and a set with those of 2.9.1.
class RecordSets : public ::testing::Test {
 protected:
  RecordSets() {
    fs::create_directories(prefix + "/bin");
    fs::create_directories(prefix + "/share");
    fs::create_directories(prefix + "/lib/recapture");
    for (const std::string name : {"canary", "librecorder.so"}) {
      fs::create_symlink(RECAPTURE_BUILD "/" + name, prefix + "/lib/recapture/" + name);
    }
    fs::copy_file(RECAPTURE_BUILD "/recapture", prefix + "/bin/recapture");
    fs::create_symlink(own.folder, prefix + "/share/recapture");
    write(own, "format = 1\nmade = '2026-11-01T10:00:00Z'\nrevision = 'aaa'\n");
    std::ofstream(own.folder + "/revision") << "aaa\n";
  }
  ~RecordSets() override { fs::remove_all(prefix); }

  static void write(const SmallTree& tree, const std::string& text) {
    std::ofstream(tree.folder + "/records.toml") << text;
  }
  void put_beside(const std::string& text) const {
    write(other, text);
    fs::create_symlink(other.folder, prefix + "/share/recapture-records");
  }
  ShellResult recapture(const std::string& arguments) const {
    return shell("cd '" + prefix + "' && bin/recapture " + arguments);
  }

  const SmallTree own{{"2.6.0/host.jsonl.gz"}}, other{{"2.9.1/nvidia-h200.jsonl.gz"}};
  const std::string prefix = fs::temp_directory_path().string() + "/recapture-prefix-" + std::to_string(getpid());
  const std::string beside = prefix + "/share/recapture-records";
};

TEST_F(RecordSets, Alone_TheProgramReadsItsOwn) {
  EXPECT_THAT(recapture("--version").out,
              AllOf(HasSubstr("(aaa), newest record 20"), Not(HasSubstr("the records in"))));
  EXPECT_EQ(recapture("show 2.9").code, 2);
}

TEST_F(RecordSets, Newer_AreUsedAndNamed) {
  put_beside("format = 1\nmade = '2026-12-01T10:00:00Z'\nrevision = 'bbb'\n");
  EXPECT_THAT(recapture("--version").out,
              AllOf(HasSubstr("(aaa), newest record 20"), HasSubstr("; the records in " + beside + " (bbb)\n")));
  EXPECT_THAT(recapture("doctor").out, HasSubstr("; the records in " + beside + " (bbb)\n"));
  EXPECT_THAT(recapture("show 2.9").out, HasSubstr("LibTorch 2.9.1"));
  EXPECT_THAT(recapture("show 2.6").out, HasSubstr("no records of 2.6; "));
}

TEST_F(RecordSets, Older_AreNotUsed) {
  put_beside("format = 1\nmade = '2026-10-31T10:00:00Z'\nrevision = 'bbb'\n");
  EXPECT_THAT(recapture("--version").out, Not(HasSubstr("the records in")));
  EXPECT_EQ(recapture("show 2.9").code, 2);
}

TEST_F(RecordSets, ForANewerProgram_AreRefusedInOneLine) {
  const std::string sentence = "the records in " + beside +
                               " are too new for this program: their format is 3, and it " +
                               "reads 2; install a newer recapture, or remove them";
  put_beside("format = 3\nmade = '2026-12-01T10:00:00Z'\n");
  for (const char* verb : {"show item_in_capture", "explain 901", "compare 2.6 2.9", "list"}) {
    const ShellResult said = recapture(verb);
    EXPECT_EQ(said.code, 2) << verb;
    EXPECT_EQ(said.out, "recapture: " + sentence + "\n") << verb;
  }
  const ShellResult version = recapture("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, HasSubstr(sentence));
}

TEST_F(RecordSets, DamagedFile_IsRefusedInOneLine) {
  for (const char* text : {"", "format = 'x'\n", "format = [\n", "format = 1\nmade = 3\n"}) {
    fs::remove(beside);
    put_beside(text);
    const ShellResult said = recapture("list");
    EXPECT_EQ(said.code, 2) << text;
    EXPECT_TRUE(said.is_one_line()) << said.out;
    EXPECT_THAT(said.out, HasSubstr("records.toml")) << text;
  }
}

// Also of verbs that have no such option for a folder of records alone.
TEST_F(RecordSets, EveryVerb_TakesOneByRecords) {
  write(other, "format = 1\nmade = '2026-10-01T10:00:00Z'\nrevision = 'bbb'\n");
  EXPECT_THAT(recapture("show 2.9 --records " + other.folder).out, HasSubstr("LibTorch 2.9.1"));
  EXPECT_EQ(recapture("list item_in_capture --records=" + other.folder).code, 0);
  EXPECT_THAT(recapture("explain 901 --records " + other.folder).out, HasSubstr("e901_invalidated"));
  EXPECT_THAT(recapture("doctor --records " + other.folder).out, HasSubstr("2.9.1 on NVIDIA H200"));
  EXPECT_THAT(recapture("blame -- echo --records " + other.folder).out, HasSubstr("--records " + other.folder));
  write(other, "format = 3\n");
  EXPECT_THAT(recapture("explain 901 --records " + other.folder).out, HasSubstr("are too new for this program"));
}

TEST(ProgramWithRecords, OpensNoConnection) {
  const ShellResult said = shell("nm -D --undefined-only " RECAPTURE_BUILD
                                 "/recapture | awk '{print $2}' | sed 's/@.*//' | "
                                 "grep -xE 'socket|connect|getaddrinfo|gethostbyname'");
  EXPECT_THAT(said.out, IsEmpty());
  EXPECT_THAT(shell("nm -D --undefined-only " RECAPTURE_BUILD "/recapture").out, HasSubstr(" U open"));
}

}  // namespace
}  // namespace recapture
