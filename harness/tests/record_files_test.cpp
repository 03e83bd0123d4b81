// Records in the archive of their folder: read as their files would be, and nothing else in it counts.
#include "harness/model/record_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/tar.h"
#include "harness/base/xz.h"
#include "harness/store/select.h"
#include "harness/tests/fake_record.h"
#include "harness/tests/namespaces.h"
#include "harness/timeline/runs.h"

namespace recapture {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using namespace std::string_literals;
using Texts = std::map<std::string, std::string>;

class RecordFiles : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }

  std::string path(const std::string& name) const { return folder + "/" + name; }
  std::string archive() const { return path(kRecordArchive); }

  // A record of one test, which passed. `more` are members of every line.
  static std::string text_of(const std::string& run, const Json& more = Json::object()) {
    CaseInfo info;
    info.id = "c";
    info.family = "f";
    info.hash = "h";
    info.tests = {"Control"};
    std::string text;
    for (Json line : {Json{{"recapture", 2},
                           {"release", "2.15.0"},
                           {"gpu", ""},
                           {"volatile", {{"run", run}, {"started", "2026-11-0" + run + "T00:00:00Z"}}}},
                      Json{{"plan", {"c.Control"}}}, info.to_json(),
                      Json{{"test", "c.Control"}, {"ending", "exited"}, {"code", 0}, {"ended", "passed"}},
                      Json{{"end", "complete"}}}) {
      line.update(more);
      text += line.dump() + "\n";
    }
    return text;
  }
  void put(const Texts& texts) const { write_file(archive(), packed_records(texts)); }
  void put_members(const std::vector<TarMember>& members) const {
    write_file(archive(), packed_by_xz(tar_of(members)));
  }

  // The error of reading it.
  static std::string refusal(const std::string& record) {
    try {
      read_record(record);
    } catch (const ExitError& stop) {
      EXPECT_EQ(stop.code, Exit::Usage);
      return stop.what();
    }
    ADD_FAILURE() << "nothing is wrong with " << record;
    return "";
  }

  const std::string folder = fs::temp_directory_path().string() + "/recapture-record-files-" + std::to_string(getpid());
};

TEST_F(RecordFiles, RecordsOfAnArchive_AreReadAsTheirFilesWere) {
  const Texts texts{{"a.jsonl", text_of("1")}, {"a.run-2.jsonl", text_of("2")}};
  std::vector<Record> before;
  for (const auto& [name, text] : texts) {
    write_file(path(name + ".gz"), packed_by_gzip(text));
    before.push_back(read_record(path(name + ".gz")));
  }
  const std::vector<std::string> paths = records_below(folder);
  for (const std::string& record : paths) fs::remove(record);
  EXPECT_FALSE(is_record_there(paths.front()));
  put(texts);
  EXPECT_EQ(records_below(folder), paths);
  for (size_t i = 0; i < paths.size(); ++i) {
    EXPECT_TRUE(is_record_there(paths[i]));
    const Record record = read_record(paths[i]);
    EXPECT_EQ(record.path, paths[i]);
    EXPECT_EQ(record_text(paths[i]), texts.at(fs::path(paths[i]).stem()));
    EXPECT_EQ(environment_of(paths[i]).json(), before[i].environment.json());
    const std::string text = record_text(paths[i]);
    EXPECT_EQ(first_lines_of_record(paths[i], 4), text.substr(0, text.find("{\"end\"")));
  }
  EXPECT_EQ(newest_records(folder).records.size(), 1U);
  EXPECT_EQ(all_records(folder).records.size(), 2U);
  const timeline::Runs runs = timeline::runs_below(folder, {"c"});
  EXPECT_EQ(runs.records.size(), 2U);
  EXPECT_THAT(runs.bad, IsEmpty());
  EXPECT_THAT(refusal(archive()), HasSubstr("an archive of records; name its folder, or one of them: a.jsonl.gz"));
  EXPECT_THAT(refusal(path("b.jsonl.gz")), HasSubstr("cannot read it: No such file or directory"));
}

// Also of a record that was cut in its first line, in its plan or in a test.
TEST_F(RecordFiles, EveryPrefixOfARecord_IsPackedWithoutLoss) {
  const std::string whole = text_of("1");
  Texts texts;
  for (size_t size = 0; size <= whole.size(); ++size) texts[fmt::format("{:05}.jsonl", size)] = whole.substr(0, size);
  put(texts);
  EXPECT_TRUE(texts_in(archive()) == texts);
  EXPECT_EQ(packed_records(texts_in(archive())), contents_of(archive())) << "the same records give the same bytes";
}

TEST_F(RecordFiles, FileBesideTheArchive_CountsOnce) {
  const std::string text = text_of("1"), begin = text.substr(0, text.rfind("{\"end\""));
  put({{"a.jsonl", begin}, {"b.jsonl", text_of("2")}});
  write_file(path("a.jsonl.gz"), packed_by_gzip(text));
  EXPECT_THAT(records_below(folder), ElementsAre(path("a.jsonl.gz"), path("b.jsonl.gz")));
  EXPECT_EQ(read_record(path("a.jsonl.gz")).end, "complete") << "the file takes the place of its beginning";
  write_file(path("a.jsonl.gz"), packed_by_gzip(text_of("3")));
  try {
    records_in(archive());
    ADD_FAILURE() << "a packed run is hidden";
  } catch (const ExitError& stop) {
    EXPECT_THAT(stop.what(), HasSubstr("a.jsonl.gz: records.tar.xz has another run of this name"));
  }
}

TEST_F(RecordFiles, CutOrChangedArchive_IsRefusedInOneLine) {
  put({{"a.jsonl", text_of("1")}});
  const std::string whole = contents_of(archive());
  for (size_t size = 0; size < whole.size(); ++size) {
    write_file(archive(), whole.substr(0, size));
    const std::vector<std::string> paths = records_below(folder);  // The archive's own, until its heads are there.
    ASSERT_THAT(paths, ElementsAre(::testing::AnyOf(archive(), path("a.jsonl.gz")))) << size;
    ASSERT_THAT(refusal(paths.front()), HasSubstr("records.tar.xz: cannot unpack it: it is damaged or cut")) << size;
    ASSERT_EQ(timeline::runs_below(folder, {}).bad.size(), 1U) << size;
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    write_file(archive(), changed);
    EXPECT_THROW(texts_in(archive()), ExitError) << at;
  }
}

TEST_F(RecordFiles, NameInAnArchive_IsNeverAPath) {
  const std::string text = text_of("1");
  for (const std::string& name : {"head/../a.jsonl"s, "head//etc/a.jsonl"s, "head/.a.jsonl"s, "head/a.txt"s,
                                  "head/a\033.jsonl"s, "../a.jsonl"s, "/etc/passwd"s, "head/"s, "a.jsonl"s}) {
    put_members({{"format", "1\n"}, {name, text}, {"rest/a.jsonl", ""}});
    EXPECT_THAT(records_below(folder), ElementsAre(archive())) << name;
    EXPECT_THAT(refusal(archive()), AllOf(HasSubstr("not an archive of records"), Not(HasSubstr("\033")))) << name;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << "nothing is written";
}

TEST_F(RecordFiles, ArchiveThatContradictsItself_IsRefused) {
  const std::string text = text_of("1");
  const TarMember format{"format", "1\n"}, head{"head/a.jsonl", text};
  put_members({format, head, head, {"rest/a.jsonl", ""}});
  EXPECT_THAT(refusal(archive()), HasSubstr("it has a.jsonl twice"));
  put_members({format, head, {"rest/b.jsonl", ""}});
  EXPECT_THAT(refusal(path("a.jsonl.gz")), HasSubstr("it has no head of b.jsonl"));
  put_members({format, head});
  EXPECT_THAT(refusal(path("a.jsonl.gz")), HasSubstr("it is cut"));
  put_members({head, {"rest/a.jsonl", ""}});
  EXPECT_THAT(refusal(archive()), HasSubstr("its first member is not its format"));
  std::string tar = tar_of({format, head, {"rest/a.jsonl", ""}});
  tar[tar.find("head/a.jsonl")] = 'H';
  write_file(archive(), packed_by_xz(tar));
  EXPECT_THAT(refusal(archive()), HasSubstr("a member with a wrong checksum"));
  write_file(archive(), packed_by_xz("no tar"));
  EXPECT_THAT(refusal(archive()), HasSubstr("it is cut"));
}

TEST_F(RecordFiles, NewerFormats_AreRefusedAndNewKeysIgnored) {
  put_members({{"format", "2\n"}, {"all", "of another kind"}});
  EXPECT_THAT(refusal(archive()), HasSubstr("its format is 2, and this program reads 1; a newer one reads it"));
  const std::string later = text_of("1", {{"of_a_later_version", {{"a", 1}}}});
  std::string newer = later;
  newer.replace(newer.find(R"("recapture":2)"), 13, R"("recapture":3)");
  put({{"a.jsonl", later}, {"b.jsonl", newer}});
  const Record record = read_record(path("a.jsonl.gz"));
  EXPECT_THAT(record.notes, IsEmpty());
  EXPECT_EQ(record.tests.size(), 1U);
  EXPECT_THAT(refusal(path("b.jsonl.gz")), HasSubstr("its format is 3, and this program reads 1 to 2"));
  EXPECT_EQ(texts_in(archive()).at("a.jsonl"), later) << "keys of a later version are kept";
}

// What is behind a record that was asked for may be damaged: dev pack and the tests read all.
TEST_F(RecordFiles, RecordThatIsAskedFor_IsReadAlone) {
  Texts texts{{"a.jsonl", text_of("1")}, {"b.jsonl", text_of("2")}};
  std::mt19937 random(1);
  for (int i = 0; i < (1 << 20); ++i) texts.at("b.jsonl") += static_cast<char>('0' + random() % 64);
  put(texts);
  std::string packed = contents_of(archive());
  packed[packed.size() - 5000] = static_cast<char>(packed[packed.size() - 5000] ^ 4);
  write_file(archive(), packed);
  EXPECT_EQ(record_text(path("a.jsonl.gz")), texts.at("a.jsonl"));
  EXPECT_THROW(record_text(path("b.jsonl.gz")), ExitError);
  EXPECT_THROW(texts_in(archive()), ExitError);
}

// A small file may unpack without end.
TEST_F(RecordFiles, UnpackedSize_HasALimit) {
  constexpr size_t kSize = size_t{5} << 20;
  const std::string packed = packed_by_xz(std::string(kSize, ' '));
  EXPECT_LT(packed.size(), 5000U);
  EXPECT_EQ(unpacked_by_xz(packed, "x.xz", kSize).size(), kSize);
  EXPECT_THROW(unpacked_by_xz(packed, "x.xz", kSize - 1), ExitError);
  EXPECT_THROW(unpacked_by_xz(packed + "more", "x.xz", kSize), ExitError);
  XzText text(packed, "x.xz", kSize);
  EXPECT_TRUE(text.unpack_more());
  EXPECT_LT(text.text().size(), kSize / 2) << "it reads on although it has enough";
}

}  // namespace
}  // namespace recapture
