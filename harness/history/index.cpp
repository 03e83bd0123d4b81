#include "harness/history/index.h"

#include <dirent.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "harness/case/events.h"
#include "harness/case/source_hash.h"
#include "harness/judge/index.h"
#include "harness/record/exit.h"

namespace recapture {
namespace fs = std::filesystem;
namespace {

constexpr int kSchema = 1;
constexpr const char* kInMemory = ":memory:";

// text: every text once, be it a line of a test, an environment, or a list of numbers of other texts.
// file: the records. seen: what each has of a case, together where it is asked for together.
constexpr std::array kTables = {
    "CREATE TABLE text(number INTEGER PRIMARY KEY, hash INTEGER NOT NULL, text TEXT NOT NULL)",
    "CREATE INDEX text_by_hash ON text(hash)",
    "CREATE TABLE file(number INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL,"
    " modified_ns INTEGER NOT NULL, changed_ns INTEGER NOT NULL, inode INTEGER NOT NULL, error TEXT NOT NULL,"
    " environment INTEGER NOT NULL, started TEXT NOT NULL, revision TEXT NOT NULL, ids TEXT NOT NULL,"
    " cases INTEGER NOT NULL)",
    "CREATE TABLE seen(case_id INTEGER NOT NULL, file INTEGER NOT NULL, lines INTEGER NOT NULL,"
    " rates TEXT NOT NULL, PRIMARY KEY(case_id, file)) WITHOUT ROWID"};

// A file that changed so shortly before it was read may change again without a sign: the clock of a file system is
// coarse. It is read again the next time.
constexpr std::chrono::seconds kCoarse{2};

// Other processes may ask and add meanwhile.
constexpr std::chrono::seconds kLongestTransaction{1};

int64_t ns_of(const timespec& time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; }

int64_t now_ns() { return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count(); }

int64_t hash_number(std::string_view text) { return static_cast<int64_t>(std::stoull(hash_of(text), nullptr, 16)); }

// Stands in a line that is kept for hits and tries that are kept beside it.
constexpr const char* kRated = "rated";

// Calls `take` with each word.
template <class Take>
void for_each_word(std::string_view text, Take&& take) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    take(text.substr(at, end - at));
    at = end + 1;
  }
}

SqlError damaged() { return {SqlError::kCorrupt, "the index is damaged"}; }

template <class Number>
Number number_in(std::string_view word) {
  Number number = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
  if (read.ec != std::errc() || read.ptr != word.data() + word.size()) throw damaged();
  return number;
}

std::vector<int64_t> numbers_in(std::string_view list) {
  std::vector<int64_t> numbers;
  for_each_word(list, [&](std::string_view word) { numbers.push_back(number_in<int64_t>(word)); });
  return numbers;
}

}  // namespace

Json kept_of(Json line) {
  const auto has = [&](const char* key) { return line.contains(key); };
  for (const char* key : {"volatile", "command", "how", "facts"}) line.erase(key);
  if (const auto culprit = line.find(key::culprit); culprit != line.end() && culprit->is_object()) {
    culprit->erase("frames");
  }
  // What a process printed last is shown only where nothing else is.
  if (has(key::seen) || has(key::culprit) || has("assertions")) line.erase("last_words");
  return line;
}

struct Index::Statements {
  static constexpr const char* kFile =
      "SELECT number, path, size, modified_ns, changed_ns, inode, error, environment, started, revision, ids FROM file";
  explicit Statements(Database& database)
      : find_text(database.prepare("SELECT number, text FROM text WHERE hash = ?")),
        put_text(database.prepare("INSERT INTO text(hash, text) VALUES(?, ?) RETURNING number")),
        get_text(database.prepare("SELECT text, hash FROM text WHERE number = ?")),
        find_file(
            database.prepare("SELECT number, size, modified_ns, changed_ns, inode, cases FROM file WHERE path = ?")),
        put_file(database.prepare(
            "INSERT INTO file(path, size, modified_ns, changed_ns, inode, error, environment, started, revision, ids,"
            " cases) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING number")),
        drop_file(database.prepare("DELETE FROM file WHERE number = ?")),
        all_files(database.prepare(std::string(kFile) + " ORDER BY path")),
        one_file(database.prepare(std::string(kFile) + " WHERE path = ?")),
        lists_of_cases(database.prepare("SELECT DISTINCT cases FROM file")),
        put_seen(database.prepare("INSERT INTO seen(case_id, file, lines, rates) VALUES(?, ?, ?, ?)")),
        drop_seen(database.prepare("DELETE FROM seen WHERE case_id = ? AND file = ?")),
        seen_of(database.prepare("SELECT file, lines, rates FROM seen WHERE case_id = ?")) {}
  Statement find_text, put_text, get_text, find_file, put_file, drop_file, all_files, one_file, lists_of_cases,
      put_seen, drop_seen, seen_of;
};

bool Index::Stamp::operator==(const Stamp& other) const {
  return size == other.size && modified_ns == other.modified_ns && changed_ns == other.changed_ns &&
         inode == other.inode;
}

Index::Stamp Index::stamp_of(const std::string& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) return {};
  return {about.st_size, ns_of(about.st_mtim), ns_of(about.st_ctim), static_cast<int64_t>(about.st_ino)};
}

Index::Index(std::string folder, const std::string& place, const Announce& announce)
    : folder_(std::move(folder)), database_(place) {
  scan("");
  std::sort(files_.begin(), files_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  make_tables();
  statements_ = std::make_unique<Statements>(database_);
  if (const auto paths = load(); !paths.empty()) {
    if (announce) announce(paths.size());
    update(paths);
    load_again(paths);
  }
  bad_.insert(bad_.end(), unreadable_.begin(), unreadable_.end());
}

Index::~Index() = default;

// As records_below() finds them, in a fifth of the time; and where a folder cannot be read, all others are.
void Index::scan(const std::string& below) {
  const std::string path = folder_ + "/" + below;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(path.c_str()), closedir);
  if (open == nullptr) {
    const std::string why = fmt::format("cannot read it: {}", std::strerror(errno));
    if (below.empty()) {
      throw Stop(errno == EACCES ? Exit::Infrastructure : Exit::Usage, fmt::format("{}: {}", folder_, why));
    }
    unreadable_.push_back({below, why});
    return;
  }
  while (const dirent* entry = readdir(open.get())) {
    const std::string name = entry->d_name, its = (fs::path(below) / name).string();
    if (name == "." || name == "..") continue;
    bool is_folder = entry->d_type == DT_DIR;
    if (entry->d_type == DT_UNKNOWN) {
      struct stat about {};
      is_folder = lstat((folder_ + "/" + its).c_str(), &about) == 0 && S_ISDIR(about.st_mode);
    }
    if (is_folder) {
      scan(its);
    } else if (is_record_name(name)) {
      files_.emplace_back(its, stamp_of(folder_ + "/" + its));
    }
  }
}

void Index::make_tables() {
  // What a power cut takes with it is read again.
  database_.run("PRAGMA synchronous = NORMAL");
  const auto is_ours = [&] {
    if (pragma("user_version") != kSchema) return false;
    Statement ask = database_.prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY sql");
    std::multiset<std::string> theirs;
    while (ask.step()) theirs.emplace(ask.text(0));
    return theirs == std::multiset<std::string>(kTables.begin(), kTables.end());
  };
  const auto is_made_by_another = [&] {
    const Transaction waited(database_, Transaction::Kind::Write);
    return is_ours();
  };
  if (!is_ours() && !is_made_by_another()) {
    database_.empty();
    Transaction making(database_, Transaction::Kind::Write);
    if (!is_ours()) {
      for (const char* table : kTables) database_.run(table);
      database_.run(fmt::format("PRAGMA application_id = {}", (now_ns() ^ getpid()) & 0x7fffffff));
      database_.run(fmt::format("PRAGMA user_version = {}", kSchema));
    }
    making.commit();
  }
  birth_ = pragma("application_id");
}

// Numbers that this process knows mean nothing in an index that another has made in the place of this one.
void Index::require_same_index() {
  if (pragma("application_id") != birth_) throw damaged();
}

int64_t Index::pragma(const std::string& name) {
  int64_t value = 0;
  for (Statement ask = database_.prepare("PRAGMA " + name); ask.step();) value = ask.number(0);
  return value;
}

void Index::take_file(Statement& row) {
  std::string path(row.text(1));
  if (const std::string_view error = row.text(6); !error.empty()) {
    bad_.push_back({std::move(path), std::string(error)});
  } else {
    run_at_[row.number(0)] = runs_.size();
    runs_.push_back({row.number(7), std::move(path), std::string(row.text(8)), std::string(row.text(9)),
                     std::string(row.text(10)), row.number(0)});
  }
}

// Where only this process has written since all was loaded, those files alone.
void Index::load_again(const std::vector<std::string>& paths) {
  reading_ = std::make_unique<Transaction>(database_, Transaction::Kind::Read);
  if (pragma("data_version") != version_) {
    load();
    return;
  }
  const std::set<std::string> changed(paths.begin(), paths.end());
  const auto is_changed = [&](const auto& known) { return changed.count(known.path) != 0; };
  runs_.erase(std::remove_if(runs_.begin(), runs_.end(), is_changed), runs_.end());
  bad_.erase(std::remove_if(bad_.begin(), bad_.end(), is_changed), bad_.end());
  run_at_.clear();
  for (const Run& run : runs_) run_at_[run.file] = static_cast<size_t>(&run - runs_.data());
  for (const std::string& path : changed) {
    for (Statement& one = statements_->one_file(path); one.step();) take_file(one);
  }
}

std::vector<std::string> Index::load() {
  reading_.reset();
  reading_ = std::make_unique<Transaction>(database_, Transaction::Kind::Read);
  require_same_index();
  version_ = pragma("data_version");
  runs_.clear();
  run_at_.clear();
  bad_.clear();
  std::vector<std::string> different;
  auto there = files_.begin();
  for (Statement& all = statements_->all_files(); all.step();) {
    const std::string path(all.text(1));
    while (there != files_.end() && there->first < path) different.push_back(there++->first);
    const bool is_there = there != files_.end() && there->first == path;
    if (!is_there || !(there->second == Stamp{all.number(2), all.number(3), all.number(4), all.number(5)})) {
      different.push_back(path);
    }
    if (is_there) ++there;
    take_file(all);
  }
  while (there != files_.end()) different.push_back(there++->first);
  return different;
}

void Index::update(const std::vector<std::string>& paths) {
  reading_.reset();
  for (size_t at = 0; at < paths.size();) {
    const auto end = std::chrono::steady_clock::now() + kLongestTransaction;
    Transaction writing(database_, Transaction::Kind::Write);
    require_same_index();
    do {
      // As it is now: since the folder was read, another process may have put it in, or the file may have changed.
      const Stamp stamp = stamp_of(folder_ + "/" + paths[at]);
      Statement& find = statements_->find_file(paths[at]);
      bool is_known = false, is_same = false;
      while (find.step()) {
        is_known = true;
        is_same = Stamp{find.number(1), find.number(2), find.number(3), find.number(4)} == stamp;
      }
      if (is_same) continue;
      if (is_known) drop(paths[at]);
      if (stamp == Stamp{}) {
        ++gone_;
      } else {
        take(paths[at], stamp);
      }
    } while (++at < paths.size() && std::chrono::steady_clock::now() < end);
    writing.commit();
  }
}

void Index::drop(const std::string& path) {
  int64_t file = 0, cases = 0;
  for (Statement& find = statements_->find_file(path); find.step();) {
    file = find.number(0);
    cases = find.number(5);
  }
  for (const int64_t id : numbers_in(text_of(cases))) statements_->drop_seen(id, file).run();
  statements_->drop_file(file).run();
}

void Index::take(const std::string& path, const Stamp& found) {
  Stamp stamp = found;
  if (now_ns() - stamp.changed_ns < std::chrono::nanoseconds(kCoarse).count()) stamp.changed_ns = 0;
  const std::string whole = folder_ + "/" + path;
  try {
    ++read_;
    put(path, stamp, read_record(whole));
  } catch (const Stop& stop) {
    std::string why = stop.what();
    if (why.rfind(whole, 0) == 0) why.erase(0, whole.size());
    why.erase(0, why.find_first_not_of(": "));
    // Whether it may be read is not the same for all who ask.
    if (access(whole.c_str(), R_OK) != 0 || !fs::is_regular_file(whole)) {
      unreadable_.push_back({path, why});
      return;
    }
    statements_
        ->put_file(path, stamp.size, stamp.modified_ns, stamp.changed_ns, stamp.inode, why, int64_t{0}, "", "", "",
                   number_of(""))
        .run();
  }
}

void Index::put(const std::string& path, const Stamp& stamp, const Record& record) {
  Json environment = record.environment.json();
  environment.erase("volatile");
  environment.erase("revision");
  struct Lists {
    Json plan = Json::array();
    std::string lines, rates;
  };
  std::map<std::string, Lists> cases;
  const auto add = [&](const TestRecord& test) {
    Json kept = kept_of(test.line);
    kept.erase(kRated);
    Lists& its = cases[test.case_id()];
    if (const auto hits = test.number(key::hits), tries = test.number(key::tries); hits && tries) {
      kept.erase(key::hits);
      kept.erase(key::tries);
      kept[kRated] = true;
      its.rates += fmt::format("{}{}:{}", its.rates.empty() ? "" : " ", *hits, *tries);
    }
    its.lines += fmt::format(" {}", number_of(kept.dump(-1, ' ', false, Json::error_handler_t::replace)));
  };
  for (const std::string& test : record.plan) cases[case_of(test)].plan.push_back(test);
  for (const TestRecord& test : record.tests) add(test);
  for (const auto& [id, again] : record.confirmations) {
    for (const TestRecord& test : again) add(test);
  }
  struct Seen {
    int64_t id = 0, lines = 0;
    std::string rates;
  };
  std::string numbers;
  std::vector<Seen> seen;
  for (const auto& [id, its] : cases) {
    const auto info = record.cases.find(id);
    const int64_t about = info == record.cases.end() ? 0 : number_of(info->second.to_json().dump());
    const std::string lines = fmt::format("{} {}{}", number_of(its.plan.dump()), about, its.lines);
    seen.push_back({number_of(id), number_of(lines), its.rates});
    numbers += fmt::format("{}{}", numbers.empty() ? "" : " ", seen.back().id);
  }
  Statement& put_file =
      statements_->put_file(path, stamp.size, stamp.modified_ns, stamp.changed_ns, stamp.inode, "",
                            number_of(environment.dump()), record.environment.started, record.where("revision"),
                            fmt::format("{}", fmt::join(record.environment.run_ids, "\n")), number_of(numbers));
  int64_t file = 0;
  while (put_file.step()) file = put_file.number(0);
  for (const auto& [id, lines, rates] : seen) statements_->put_seen(id, file, lines, rates).run();
}

int64_t Index::number_of(const std::string& text) {
  const auto [known, is_new] = numbers_.emplace(text, 0);
  if (!is_new) return known->second;
  const auto hash = hash_number(text);
  for (Statement& find = statements_->find_text(hash); find.step();) {
    if (find.text(1) == text) known->second = find.number(0);
  }
  if (known->second == 0) {
    for (Statement& put = statements_->put_text(hash, text); put.step();) known->second = put.number(0);
  }
  return known->second;
}

std::string Index::text_of(int64_t number) {
  std::optional<std::string> text;
  for (Statement& get = statements_->get_text(number); get.step();) {
    if (hash_number(get.text(0)) == get.number(1)) text = get.text(0);
  }
  if (!text) throw damaged();
  return *text;
}

const Json& Index::json(int64_t text) {
  const auto [known, is_new] = texts_.emplace(text, Json());
  if (is_new) {
    auto parsed = try_parse_json(text_of(text));
    if (!parsed) throw damaged();
    known->second = std::move(*parsed);
  }
  return known->second;
}

std::vector<std::string> Index::cases() {
  std::set<int64_t> numbers;
  std::vector<int64_t> lists;
  for (Statement& all = statements_->lists_of_cases(); all.step();) lists.push_back(all.number(0));
  for (const int64_t list : lists) {
    for (const int64_t number : numbers_in(text_of(list))) numbers.insert(number);
  }
  std::vector<std::string> cases;
  cases.reserve(numbers.size());
  for (const int64_t number : numbers) cases.push_back(text_of(number));
  std::sort(cases.begin(), cases.end());
  return cases;
}

std::vector<CaseLines> Index::parts_of(const std::string& case_id) {
  const auto hash = hash_number(case_id);
  int64_t number = 0;
  for (Statement& find = statements_->find_text(hash); find.step();) {
    if (find.text(1) == case_id) number = find.number(0);
  }
  std::vector<CaseLines> parts;
  for (Statement& seen = statements_->seen_of(number); seen.step();) {
    const auto run = run_at_.find(seen.number(0));
    if (run == run_at_.end()) throw damaged();
    parts.push_back({&runs_[run->second], seen.number(1), std::string(seen.text(2))});
  }
  return parts;
}

std::vector<std::string> Index::tests_of(const std::string& case_id) {
  std::map<int64_t, CaseLines> distinct;
  for (CaseLines& part : parts_of(case_id)) distinct.emplace(part.lines, std::move(part));
  std::set<std::string> tests;
  for (const auto& [lines, part] : distinct) {
    const Record record = std::move(record_of(part).record_);
    tests.insert(record.plan.begin(), record.plan.end());
    for (const TestRecord& test : record.tests) tests.insert(test.id());
  }
  return {tests.begin(), tests.end()};
}

size_t Index::size_of(const CaseLines& part) { return numbers_in(text_of(part.lines)).size(); }

CaseRecord Index::record_of(const CaseLines& part, const std::string& test) {
  const auto is_left_out = [&](const std::string& id) {
    return !test.empty() && id != test && kind_of_id(id) != Kind::Control;
  };
  const auto numbers = numbers_in(text_of(part.lines));
  if (numbers.size() < 2) throw damaged();
  Record record;
  record.path = part.run->path;
  record.environment = json(part.run->environment);
  std::vector<std::pair<std::string, size_t>> rated;  // Where each line with a rate went.
  constexpr size_t kLeftOut = ~size_t{0}, kAgain = size_t{1} << 32;
  try {
    for (const Json& planned : json(numbers[0])) {
      const auto id = planned.get<std::string>();
      if (!is_left_out(id)) record.plan.push_back(id);
    }
    if (numbers[1] != 0) {
      const CaseInfo info = CaseInfo::from(json(numbers[1]));
      record.cases[info.id] = info;
    }
    for (size_t i = 2; i < numbers.size(); ++i) {
      TestRecord line{json(numbers[i])};
      const std::string id = line.id();
      const bool has_rate = line.line.erase(kRated) != 0, again = line.has("confirms"), left_out = is_left_out(id);
      auto& confirmations = record.confirmations;
      if (has_rate) {
        const size_t at = left_out ? kLeftOut : again ? kAgain + confirmations[id].size() : record.tests.size();
        rated.emplace_back(id, at);
      }
      if (left_out) continue;
      if (again) {
        confirmations[id].push_back(std::move(line));
      } else {
        record.add(std::move(line));
      }
    }
  } catch (const std::exception&) {  // It was a record when it was put in.
    throw damaged();
  }
  CaseRecord made(std::move(record));
  for (const auto& [id, at] : rated) {
    Json* line = nullptr;
    if (at != kLeftOut) {
      line = at < kAgain ? &made.record_.tests[at].line : &made.record_.confirmations.at(id)[at - kAgain].line;
    }
    made.rated_.push_back(line);
  }
  made.with(part.rates);
  return made;
}

const Record& CaseRecord::with(const std::string& rates) {
  size_t at = 0;
  for_each_word(rates, [&](std::string_view word) {
    const size_t colon = word.find(':');
    if (at == rated_.size() || colon == std::string_view::npos) throw damaged();
    if (Json* line = rated_[at++]) {
      (*line)[key::hits] = number_in<int>(word.substr(0, colon));
      (*line)[key::tries] = number_in<int>(word.substr(colon + 1));
    }
  });
  if (at != rated_.size()) throw damaged();
  return record_;
}

std::string CaseRecord::own(const std::string& rates) const {
  std::string words;
  size_t at = 0;
  for_each_word(rates, [&](std::string_view word) {
    if (at < rated_.size() && rated_[at] != nullptr) words.append(word).push_back(' ');
    ++at;
  });
  return words;
}

std::string ask(const std::string& folder, const std::vector<std::string>& places,
                const std::function<void(Index&)>& question, const Announce& announce) {
  std::string why;
  for (const std::string& place : places) {
    for (const bool again : {false, true}) {
      try {
        std::error_code error;  // To open the file says what is wrong.
        fs::create_directories(fs::path(place).parent_path(), error);
        if (again) Database(place).empty();
        Index index(folder, place, announce);
        question(index);
        return "";
      } catch (const SqlError& error) {
        if (why.empty()) why = error.what();
        if (!error.is_corrupt()) break;
      }
    }
  }
  Index index(folder, kInMemory, announce);
  question(index);
  return why;
}

}  // namespace recapture
