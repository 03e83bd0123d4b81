#include "harness/model/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/parallel.h"
#include "harness/base/reason.h"
#include "harness/case/events.h"
#include "harness/model/operator_cases.h"
#include "harness/model/record_files.h"
#include "harness/model/record_text.h"

namespace recapture {
namespace {

bool starts(std::string_view line, std::string_view start) { return line.substr(0, start.size()) == start; }

// The members whose types are checked when a line is read.
enum class MemberKind { Text, Number, Object, List, Boolean };
using enum MemberKind;

MemberKind kind_of_kept(Keep keep) {
  switch (keep) {
    case Keep::Last:
    case Keep::First:
      return Text;
    case Keep::Number:
    case Keep::FirstNumber:
      return Number;
    case Keep::Each:
      return List;
    case Keep::ProbeBegins:
      return Boolean;
    case Keep::FirstObject:
    case Keep::LogOfObject:
    case Keep::ProbeOutcome:
    case Keep::Fact:
      break;
  }
  return Object;
}

// What a test reports (events.h), and what the runner writes itself.
const std::unordered_map<std::string_view, MemberKind> kMembers = [] {
  std::unordered_map<std::string_view, MemberKind> members = {
      {"test", Text},    {"ending", Text},     {"contradiction", Text}, {"stopping", Text},     {"how", Text},
      {"release", Text}, {"gpu", Text},        {"driver", Text},        {"cuda_runtime", Text}, {"break", Text},
      {"shard", Text},   {"case", Text},       {"hash", Text},          {"end", Text},          {"stub", Text},
      {"program", Text}, {"lacks", Text},      {"stopped_by", Text},    {"code", Number},       {"confirms", Number},
      {"facts", Object}, {"volatile", Object}, {"effects", Object},     {"fixes", Object},      {"plan", List},
      {"whole", List},   {"tests", List},      {"sources", List},       {"packed", Boolean}};
  for (const KeyRule& rule : kKeyRules) members.emplace(rule.record, kind_of_kept(rule.keep));
  return members;
}();

void require_kinds(const JsonObject& line) {
  const auto require = [](bool is_right, std::string_view key, const char* kind) {
    if (!is_right) throw std::runtime_error(fmt::format("'{}' is not {}", key, kind));
  };
  for (const auto& [key, value] : line.members()) {
    const auto member = kMembers.find(key);
    if (member == kMembers.end()) continue;
    switch (member->second) {
      case Text:
        require(value.front() == '"', key, "text");
        break;
      case Number:
        require(line.number(key).has_value(), key, "a whole number");
        break;
      case Object:
        require(value.front() == '{', key, "an object");
        break;
      case List:
        require(value.front() == '[', key, "a list");
        break;
      case Boolean:
        require(value == "true" || value == "false", key, "true or false");
    }
  }
}

// "item_in_capture.Reproduces", escaped.
std::string test_id(std::string id) {
  const size_t dot = id.find('.');
  if (dot == 0 || dot == std::string::npos) throw std::runtime_error("a test without a case");
  if (escape_control(id) != id) throw std::runtime_error("a test with control characters in its name");
  return id;
}

std::vector<std::string> tests_in(const Json& list) {
  std::vector<std::string> tests;
  tests.reserve(list.size());
  std::unordered_set<std::string_view> known;
  for (const Json& test : list) {
    tests.push_back(test_id(test.get<std::string>()));
    if (!known.insert(tests.back()).second) throw std::runtime_error("a plan with " + tests.back() + " twice");
  }
  return tests;
}

void take_environment(Record& record, Json line) {
  const Json& format = line.at("recapture");
  if (!format.is_number_integer() || format < 1) {
    throw std::runtime_error(
        fmt::format("'recapture' is {}, not the number of a format, such as 2: this is not a record, or it is damaged",
                    format.dump()));
  }
  if (format > kRecordFormat) {
    throw std::runtime_error(fmt::format("its format is {}, and this program reads 1 to {}; a newer one reads it",
                                         format.dump(), kRecordFormat));
  }
  if (!record.environment.empty()) throw std::runtime_error("a second environment");
  if (line.contains("break") && !break_of(text_at(line, "break"))) {
    throw std::runtime_error(fmt::format("nothing can be broken by '{}'", text_at(line, "break")));
  }
  record.environment = std::move(line);
}

void take_test(Record& record, TestRecord test) {
  const std::string id = test_id(test.id());
  if (record.cases.count(case_of(id)) == 0) throw std::runtime_error("a test before its case");
  if (test.has("confirms")) {
    if (record.find(id) == nullptr) throw std::runtime_error("a confirmation before its test");
    record.confirmations[id].push_back(std::move(test));
  } else if (record.find(id) != nullptr) {
    throw std::runtime_error("the same test twice");
  } else {
    record.add(std::move(test));
  }
}

void take_case(Record& record, const CaseInfo& info) {
  const auto [known, is_new] = record.cases.try_emplace(info.id, info);
  if (known->second.hash != info.hash) {
    throw std::runtime_error(fmt::format("it has case '{}' twice, of different code", info.id));
  }
}

void require_text_length(const Json& value) {
  if (value.is_string() && value.get_ref<const std::string&>().size() > kLongestText) {
    throw std::runtime_error(fmt::format("a text of it has more than {} bytes", kLongestText));
  }
  if (!value.is_structured()) return;
  for (const Json& member : value) require_text_length(member);
}

Json parse_line(std::string_view line) {
  Json parsed = parse_json(line);
  if (line.size() > kLongestText) require_text_length(parsed);
  return parsed;
}

// Whether no text of a line is too long, as far as that is seen without parsing: that of a plan is in its many texts.
bool has_short_texts(const JsonObject& line) {
  return std::ranges::all_of(line.members(), [](const JsonObject::Member& member) {
    std::string_view rest = member.value;
    if (rest.size() <= kLongestText) return true;
    if (rest.find('\\') != rest.npos) return false;
    while (rest.size() > kLongestText) {
      const size_t quote = rest.find('"');
      if (quote > kLongestText) return false;
      rest.remove_prefix(quote + 1);
    }
    return true;
  });
}

// `owner` keeps the text.
void take_line(Record& record, std::shared_ptr<const void> owner, std::string_view text) {
  auto read = JsonObject::read(text);
  if (!read || (text.size() > kLongestText && !has_short_texts(*read))) {
    const Json json = parse_line(text);
    if (!json.is_object()) throw std::runtime_error("it is not an object");
    const auto usual = std::make_shared<const std::string>(to_text(json));
    read = JsonObject::known(*usual);
    owner = usual;
  }
  const JsonObject& line = *read;
  require_kinds(line);
  if (!record.end.empty() && !line.has("resumed")) throw std::runtime_error("a line after the end");
  if (line.has("recapture")) {
    take_environment(record, parse_json(line.text()));
  } else if (line.has("plan")) {
    if (!record.plan.empty()) throw std::runtime_error("a second plan");
    record.plan = tests_in(line.part("plan"));
    if (line.has("whole")) record.whole_plan = tests_in(line.part("whole"));
  } else if (line.has("case")) {
    take_case(record, CaseInfo::from(parse_json(line.text())));
  } else if (line.has("test")) {
    take_test(record, TestRecord::of(std::move(owner), std::move(*read)));
  } else if (line.has("end")) {
    record.end = line.text("end");
    if (record.end.empty()) throw std::runtime_error("an end without a word");
  } else if (line.has("resumed")) {
    record.end.clear();
  } else {
    throw std::runtime_error("a line of no known kind");
  }
}

// Notes for the reader if the run is incomplete.
void note_what_is_missing(Record& record) {
  const auto lost =
      std::ranges::find_if(record.plan, [&](const std::string& test) { return record.find(test) == nullptr; });
  if (record.end.empty()) {
    record.notes.push_back(lost == record.plan.end()
                               ? "the run did not come to its end"
                               : "the run did not come to its end; lost in flight or not run from " + *lost +
                                     " on. `recapture run --resume` runs the rest");
  }
  if (record.plan.empty()) record.notes.emplace_back("it has no plan: what should have run is not known");
  if (record.end == "complete" && lost != record.plan.end()) {
    record.notes.push_back("it is called complete, and " + *lost + " has not run");
  }
  if (!record.is_shard()) return;
  std::string rest = "which tests those have is not on record";
  if (!record.whole_plan.empty()) {
    const std::set<std::string> here(record.plan.begin(), record.plan.end());
    const auto first =
        std::ranges::find_if(record.whole_plan, [&](const std::string& test) { return here.count(test) == 0; });
    const size_t missing = record.whole_plan.size() - std::min(here.size(), record.whole_plan.size());
    rest = fmt::format("{} of {} tests are in the others{}", missing, record.whole_plan.size(),
                       first == record.whole_plan.end() ? "" : ", " + *first + " among them");
  }
  record.notes.push_back(
      fmt::format("shard {} alone: {}; `recapture dev merge` makes one record of all", record.env("shard"), rest));
}

}  // namespace

std::string missing_symbol(std::string_view output) {
  constexpr std::string_view kBefore = "undefined symbol: ", kRuntime = ", version libcudart.so.", kNccl = "nccl";
  for (size_t at = 0; (at = output.find(kBefore, at)) != output.npos;) {
    at += kBefore.size();
    size_t end = at;
    while (end < output.size() && (std::isalnum(static_cast<unsigned char>(output[end])) != 0 || output[end] == '_')) {
      ++end;
    }
    const std::string_view name = output.substr(at, end - at), rest = output.substr(end);
    if (name.empty()) continue;
    if (rest.substr(0, kRuntime.size()) == kRuntime) return fmt::format("the CUDA runtime has no {}", name);
    const bool is_whole = rest.empty() || rest.front() == '\n';  // NCCL's functions have no version.
    if (is_whole && name.substr(0, kNccl.size()) == kNccl) return fmt::format("NCCL has no {}", name);
  }
  return "";
}

Kind kind_of_id(std::string_view test_id) {
  const size_t dot = test_id.find('.');
  return kind_of_test(test_id.substr(0, dot), test_id.substr(dot + 1)).value_or(Kind::Control);
}

namespace {

// The value of a word. Throws for one that only a newer program knows, or none.
template <class E, size_t N>
E read_word(const std::string& word, const char* what, const std::array<std::string_view, N>& words) {
  if (const auto value = detail::enum_of<E>(words, word)) return *value;
  throw std::runtime_error(fmt::format("a case with the {} '{}', which is not known", what, word));
}

}  // namespace

CaseInfo CaseInfo::from(Json json) {
  CaseInfo info;
  if (!json.is_object()) throw std::runtime_error("a case that is not an object");
  const std::string text = to_text(json);
  require_kinds(JsonObject::known(text));
  info.id = text_at(json, "case");
  info.family = text_at(json, "family");
  info.hash = json.at("hash");
  info.title = json.at("title");
  info.documented = json.at("documented");
  info.nature = read_word<Nature>(json.at("nature"), "nature", kNatures);
  info.fidelity = read_word<Fidelity>(json.at("fidelity"), "fidelity", kFidelities);
  const std::string words = json.at("needs");
  const auto needs = Needs::read(words);
  if (!needs) throw std::runtime_error(fmt::format("a case that needs '{}', which is not known", words));
  info.needs = *needs;
  info.sources = std::move(json.at("sources"));
  info.deadline_s = int_at(json, "deadline_s").value_or(0);
  if (info.deadline_s < 1) throw std::runtime_error("a case without a deadline");
  if (const std::string& effect = text_at(json, "effect"); !effect.empty()) {
    info.effect = read_word<Effect>(effect, "effect", kEffects);
  }
  info.stopping = read_word<StoppingRule>(text_at(json, "stopping"), "stopping rule", kStoppingRules);
  if (const Json* effects = member(json, "effects")) {
    for (const auto& [test, effect] : effects->items()) {
      info.effects.emplace_back(test, read_word<Effect>(effect, "effect", kEffects));
    }
  }
  if (const Json* fixes = member(json, "fixes")) {
    for (const auto& [test, sentence] : fixes->items()) info.fixes.emplace_back(test, sentence);
  }
  for (const auto& test : json.at("tests")) info.tests.push_back(test);
  if (escape_control(info.id + info.family) != info.id + info.family) {
    throw std::runtime_error("a case with control characters in its name");
  }
  return info;
}

namespace {

bool mentions(const Json& value, std::string_view words) {
  if (value.is_string()) return value.get_ref<const std::string&>().find(words) != std::string::npos;
  return value.is_structured() &&
         std::ranges::any_of(value, [&](const Json& member) { return mentions(member, words); });
}

// Records older than 22 November 2026 may name a probe's call if the recorder saw no other.
bool is_of_a_probe(const TestRecord& test) {
  constexpr std::string_view kProbes = "recapture::run_probes(";
  if (!test.has("culprit") || !test.mentions(kProbes)) return false;
  const Json culprit = test.part("culprit");
  return culprit.is_object() && culprit.contains("frames") && mentions(culprit.at("frames"), kProbes);
}

}  // namespace

Json truncate_texts(Json line) {
  if (line.is_string()) {
    auto& text = line.get_ref<std::string&>();
    if (text.size() > kLongestText / 3) text.resize(kLongestText / 3);
  } else if (line.is_structured()) {
    for (Json& member : line) member = truncate_texts(std::move(member));
  }
  return line;
}

std::optional<Effect> CaseInfo::effect_of(std::string_view test) const {
  const auto own = std::ranges::find(effects, test, &std::pair<std::string, Effect>::first);
  return own == effects.end() ? effect : own->second;
}

Json CaseInfo::to_json() const {
  Json of_tests = Json::object(), sentences = Json::object();
  for (const auto& [test, own] : effects) of_tests[test] = to_string(own);
  for (const auto& [test, sentence] : fixes) sentences[test] = sentence;
  return Json{{"case", id},
              {"family", family},
              {"hash", hash},
              {"title", title},
              {"sources", sources},
              {"documented", documented},
              {"nature", to_string(nature)},
              {"fidelity", to_string(fidelity)},
              {"needs", needs.words()},
              {"deadline_s", deadline_s},
              {"effect", effect ? to_string(*effect) : ""},
              {"effects", of_tests},
              {"fixes", sentences},
              {"stopping", to_string(stopping)},
              {"tests", tests}};
}

std::string code_of(const Record& record, const std::string& test_id) {
  if (is_of_program(std::string_view(test_id).substr(test_id.find('.') + 1))) {
    const TestRecord* test = record.find(test_id);
    return test == nullptr ? "" : test->text("program");
  }
  const auto info = record.cases.find(case_of(test_id));
  return info == record.cases.end() ? "" : info->second.hash;
}

std::string TestRecord::missing_module() const {
  constexpr std::string_view kBefore = "No module named '";
  if (!has("exception") || text("exception") != "ModuleNotFoundError" || text("ended") != "failed") return "";
  const std::string message = text("message");
  if (message.rfind(kBefore, 0) != 0) return "";
  const std::string module =
      message.substr(kBefore.size(), message.find_first_of(".'", kBefore.size()) - kBefore.size());
  return module == "torch" ? "" : module;
}

ProbeOutcome read_probe(std::string_view probe, std::string_view text) {
  if (text == "ok" || text == "none") return ProbeOutcome::Fine;
  // "900, 0": an error was pending, and the synchronisation after it worked.
  if (probe == "sticky" && text.size() > 3 && text.substr(text.size() - 3) == ", 0") return ProbeOutcome::Fine;
  if (text == "keeps the memory") return ProbeOutcome::KeepsMemory;
  return starts(text, "did not come back") ? ProbeOutcome::Lost : ProbeOutcome::Unusable;
}

TestRecord::TestRecord(const Json& line) {
  auto text = std::make_shared<const std::string>(to_text(line));
  *this = of(text, JsonObject::known(*text));
}

TestRecord TestRecord::of(std::shared_ptr<const void> owner, JsonObject line) {
  TestRecord test;
  test.owner_ = std::move(owner);
  test.line_ = std::move(line);
  test.id_ = test.line_.text("test");
  constexpr double kMost = 1e9;  // Thirty years: a sum of these does not overflow.
  const double seconds = test.line_.object("volatile").real("seconds").value_or(0);
  test.seconds_ = seconds >= 0 && seconds < kMost ? seconds : 0;
  return test;
}

Json TestRecord::tables() const {
  Json rows = Json::object();
  const JsonObject facts = object("facts");
  for (const JsonObject::Member& fact : facts.members()) {
    if (fact.key.starts_with(key::table)) rows[fact.name()] = parse_json(fact.value);
  }
  return rows;
}

Ending TestRecord::ending() const {
  return detail::enum_of<Ending>(kEndings, text("ending")).value_or(Ending::Unknown);
}

std::string TestRecord::seen() const { return text(key::seen); }
bool TestRecord::has_seen() const { return has(key::seen); }
bool TestRecord::has_rate() const { return has(key::tries); }
int TestRecord::hits() const { return number(key::hits).value_or(0); }
int TestRecord::tries() const { return number(key::tries).value_or(0); }

SkipReason TestRecord::skip_reason() const {
  if (!has("skipped")) return SkipReason::None;
  const std::string reason = text("skipped");  // The fixture's: "no GPU", or "no GPU: out of memory".
  if (reason == "no GPU" || starts(reason, "no GPU: ")) return SkipReason::NoGpu;
  return reason == kNotBuilt ? SkipReason::NotBuilt : SkipReason::Other;
}

void Record::add(TestRecord test) {
  if (is_of_a_probe(test)) {
    Json line = test.json();
    line.erase("culprit");
    test = TestRecord(line);
  }
  index_.emplace(test.id(), tests.size());
  tests.push_back(std::move(test));
}

const TestRecord* Record::find(const std::string& test) const {
  const auto found = index_.find(test);
  return found == index_.end() ? nullptr : &tests[found->second];
}

std::string Record::env(const std::string& key) const { return escape_control(text_at(environment.json(), key)); }

bool Record::is_shard() const {
  const std::string shard = env("shard");
  const size_t slash = shard.find('/');
  return !whole_plan.empty() || (slash != std::string::npos && shard.substr(slash + 1) != "1");
}

bool Record::is_complete() const { return end == "complete" && !plan.empty() && !is_shard() && has_all(); }

bool Record::has_all() const {
  return std::ranges::all_of(plan, [&](const std::string& test) { return find(test) != nullptr; });
}

std::string Record::machine() const {
  return env("release") + ", " + label(environment.machine, {.variables = true, .overrides = true});
}

namespace {

// The text after this start of a line; "" for any other line.
std::string_view text_after(std::string_view line, std::string_view start) {
  if (!starts(line, start)) return "";
  const std::string_view rest = line.substr(start.size());
  return rest.substr(0, rest.find('"'));
}

// The test of a record's line, as the runner writes it; "" for any other line.
std::string_view test_of(std::string_view line) { return text_after(line, R"({"test":")"); }

// Of a line that begins with a case. Most runs have the same cases, so what one line says is read once.
const CaseInfo& case_in(std::string_view line) {
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  static std::mutex mutex;
  static std::unordered_map<std::string, CaseInfo, Hash, std::equal_to<>> known;  // Its values do not move.
  const std::scoped_lock lock(mutex);
  auto at = known.find(line);
  if (at == known.end()) at = known.emplace(line, CaseInfo::from(parse_line(line))).first;
  return at->second;
}

// Those lines of a record's text that `wanted` says are wanted. Of the parts only the last one may end within a line.
template <class Wanted>
Record read_lines(const std::string& path, const RecordText& read, Wanted&& wanted) {
  Record record;
  record.path = path;
  int number = 0;
  for (std::string_view text : read.parts()) {
    while (!text.empty()) {
      const size_t end = text.find('\n');
      ++number;
      if (end == std::string_view::npos) {
        record.notes.push_back(fmt::format("line {} is cut: the run was stopped while it wrote it", number));
        break;
      }
      const std::string_view line = text.substr(0, end);
      text.remove_prefix(end + 1);
      try {
        if (wanted(line)) {
          if (record.end.empty() && starts(line, R"({"case":")")) {
            take_case(record, case_in(line));
          } else {
            take_line(record, read.owner(), line);
          }
        }
      } catch (const std::bad_alloc&) {
        throw;
      } catch (const std::exception& e) {
        throw ExitError(Exit::Usage, fmt::format("{}:{}: not a line of a record: {}", escape_control(path), number,
                                                 escape_control(reason_of(e))));
      }
      if (number == 1 && record.environment.empty()) {
        throw ExitError(Exit::Usage, path + ":1: not a record: the first line is not an environment");
      }
    }
  }
  if (record.environment.empty()) throw ExitError(Exit::Usage, path + ": not a record: it is empty");
  return record;
}

}  // namespace

Record read_record_text(const std::string& text, const std::string& path) {
  return read_lines(path, RecordText(text), [](std::string_view) { return true; });
}

Record read_record(const std::string& path) {
  const RecordText text = read_record_file(path);
  Record record = read_lines(path, text, [](std::string_view) { return true; });
  note_what_is_missing(record);
  return record;
}

namespace {

Record read_rates(const std::string& path) {
  constexpr std::string_view kTries = R"("tries")";
  const RecordText text = read_record_file(path);
  std::set<std::string_view> tests;  // Only tests with confirmations have a rate: a single run may be broken.
  for (const std::string_view part : text.parts()) {
    for (size_t at = 0; (at = part.find(kTries, at)) != part.npos; at = part.find('\n', at)) {
      const size_t line = part.rfind('\n', at) + 1;  // 0 for the first.
      tests.insert(test_of(part.substr(line)));
    }
  }
  const bool is_spaced = tests.erase("") > 0;  // Another program has rewritten it with spaces.
  return read_lines(path, text, [&](std::string_view line) {
    return is_spaced || starts(line, R"({"recapture")") || starts(line, R"({"plan")") || starts(line, R"({"case")") ||
           tests.count(test_of(line)) != 0;
  });
}

}  // namespace

Record read_tests(const std::string& path, const std::set<std::string>& tests) {
  const std::set<std::string_view> wanted(tests.begin(), tests.end());
  const RecordText text = read_record_file(path);
  return read_lines(path, text, [&](std::string_view line) {
    const std::string_view test = test_of(line);
    return test.empty() || wanted.count(test) != 0;
  });
}

Record read_cases(const std::string& path, const std::set<std::string>& cases) {
  const std::set<std::string_view> wanted(cases.begin(), cases.end());
  const RecordText text = read_record_file(path);
  return read_lines(path, text, [&](std::string_view line) {
    const std::string_view test = test_of(line);
    const std::string_view id = test.empty() ? text_after(line, R"({"case":")") : test.substr(0, test.find('.'));
    return id.empty() || wanted.count(id) != 0;
  });
}

std::vector<Record> read_records_below(const std::string& folder) {
  const std::vector<std::string> paths = records_below(folder);
  std::vector<Record> records(paths.size());
  in_parallel(paths.size(), [&](size_t i) { records[i] = read_record(paths[i]); });
  return records;
}

std::vector<Record> read_rates_below(const std::string& folder) {
  const std::vector<std::string> paths = records_below(folder);
  std::vector<Record> records(paths.size());
  in_parallel(paths.size(), [&](size_t i) { records[i] = read_rates(paths[i]); });
  return records;
}

}  // namespace recapture
