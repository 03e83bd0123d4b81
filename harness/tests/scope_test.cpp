// Tags, and the scopes that words select.
#include "harness/model/scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/exit.h"
#include "harness/tests/namespaces.h"
#include "harness/tests/shell.h"

namespace recapture {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CatalogueCase a_case(const std::string& family, const std::string& id, const std::vector<std::string>& tags) {
  CatalogueCase one;
  one.family = family;
  one.id = id;
  one.tags = tags;
  return one;
}

// The family "streams" is an alias of a tag.
const Catalogue kCatalogue = {a_case("distributed", "ddp_made_early", {"DDP", "side streams"}),
                              a_case("freeze", "nemo_freezes", {"NeMo"}), a_case("freeze", "nemo_raises", {"NeMo"}),
                              a_case("replay", "output_read_late", {"any program"}),
                              a_case("streams", "stream_not_joined", {"side streams", "events"})};

std::string refusal(const std::string& word) {
  try {
    recapture::cases_in_scope({word}, kCatalogue);
  } catch (const ExitError& stop) {
    EXPECT_EQ(stop.code, Exit::Usage);
    return stop.what();
  }
  return "none";
}

TEST(Tags, ANameOrAlias_IsFoundInAnySpelling) {
  for (const char* word : {"side streams", "Side_Stream", "SIDE-STREAMS", "streams", "sidestream"}) {
    ASSERT_NE(tag_of(word), nullptr) << word;
    EXPECT_EQ(tag_of(word)->name, "side streams") << word;
  }
  EXPECT_EQ(tag_of("pin_memory")->name, "pinned memory");
  EXPECT_EQ(tag_of("ddp")->name, "DDP");
  EXPECT_EQ(tag_of("custom generator")->name, "generators");
  for (const char* word : {"", "s", "_", "stre", "side"}) EXPECT_EQ(tag_of(word), nullptr) << word;
}

TEST(Tags, EverySpelling_IsOfOneTag) {
  std::set<std::string> spellings;
  for (const Tag& tag : kTags) {
    EXPECT_FALSE(tag.meaning.empty()) << tag.name;
    EXPECT_TRUE(spellings.insert(folded_tag(tag.name)).second) << tag.name;
    for (const std::string_view alias : tag.aliases) {
      EXPECT_TRUE(alias.empty() || spellings.insert(folded_tag(alias)).second) << alias;
    }
  }
}

TEST(Describe, ACaseWithTagsAndReleases_PrintsBoth) {
  const Json says = Json::parse(shell(RECAPTURE_BUILD "/harness/tests/liar --describe").out);
  EXPECT_EQ(says.at("tags"), Json::array({"threads"}));
  EXPECT_EQ(says.at("fix_releases"), Json({{"FixIsNotApplicable", "<2.7"}}));
}

TEST(Scope, NoWords_AreAllCases) { EXPECT_EQ(recapture::cases_in_scope({}, kCatalogue).size(), kCatalogue.size()); }

TEST(Scope, Words_AreUnitedWithAnyProgram) {
  EXPECT_THAT(recapture::cases_in_scope({"ddp"}, kCatalogue), ElementsAre("ddp_made_early", "output_read_late"));
  EXPECT_THAT(recapture::cases_in_scope({"DDP", "event"}, kCatalogue),
              ElementsAre("ddp_made_early", "output_read_late", "stream_not_joined"));
  EXPECT_THAT(recapture::cases_in_scope({"autocast"}, kCatalogue), ElementsAre("output_read_late"))
      << "a tag without cases";
}

TEST(Scope, ATag_ComesBeforeAFamilyBeforeACase) {
  EXPECT_THAT(recapture::cases_in_scope({"streams"}, kCatalogue),
              ElementsAre("ddp_made_early", "output_read_late", "stream_not_joined"));
  EXPECT_THAT(recapture::cases_in_scope({"freeze"}, kCatalogue),
              ElementsAre("nemo_freezes", "nemo_raises", "output_read_late"));
  EXPECT_THAT(recapture::cases_in_scope({"nemo_raises"}, kCatalogue), ElementsAre("nemo_raises", "output_read_late"));
  EXPECT_THAT(recapture::cases_in_scope({"nemo_*"}, kCatalogue),
              ElementsAre("nemo_freezes", "nemo_raises", "output_read_late"));
}

TEST(Scope, AFamilyThatIsATagToo_NamesItsOwnCases) {
  EXPECT_THAT(cases_named("streams", kCatalogue), ElementsAre("stream_not_joined"));
  EXPECT_THAT(cases_named("nemo_*", kCatalogue), ElementsAre("nemo_freezes", "nemo_raises"));
  EXPECT_THAT(cases_named("side streams", kCatalogue), IsEmpty());
}

TEST(Scope, UnknownWord_ListsNearestAndAllFeatures) {
  const std::string said = refusal("DPD");
  EXPECT_THAT(
      said,
      HasSubstr("no feature, family or case is called 'DPD'; did you mean DDP? features: any program, DDP, FSDP,"));
  for (const Tag& tag : kTags) EXPECT_THAT(said, HasSubstr(std::string(tag.name)));
  EXPECT_EQ(said.find('\n'), said.npos);
  EXPECT_THAT(refusal("pin memroy"), HasSubstr("did you mean pinned memory?")) << "near to an alias";
  EXPECT_THAT(refusal("frezze"), HasSubstr("did you mean freeze?"));
  EXPECT_THAT(refusal("nemo_raise"), HasSubstr("did you mean nemo_raises?"));
  EXPECT_THAT(refusal("quite another"), HasSubstr("'quite another'; features: "));
  EXPECT_THAT(refusal("zz*"), HasSubstr("'zz*'; features: "));
  EXPECT_EQ(refusal("DDP"), "none");
}

TEST(Scope, TagsWithCounts_CountCasesInTheOrderOfTheVocabulary) {
  const auto counts = tags_with_counts(kCatalogue);
  ASSERT_EQ(counts.size(), kTags.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    const std::string_view name = counts[i].first->name;
    EXPECT_EQ(name, kTags[i].name);
    const size_t expected = name == "NeMo" || name == "side streams"                     ? 2
                            : name == "DDP" || name == "any program" || name == "events" ? 1
                                                                                         : 0;
    EXPECT_EQ(counts[i].second, expected) << name;
  }
}

}  // namespace
}  // namespace recapture
