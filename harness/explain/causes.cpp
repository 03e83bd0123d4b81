#include "harness/explain/causes.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "harness/base/exit.h"
#include "harness/base/letter_case.h"
#include "harness/base/parallel.h"
#include "harness/base/toml.h"
#include "harness/case/cuda_errors.h"

namespace recapture::explain {
namespace {

// Rejects parts so common that their cause would match any text.
void check_parts(const std::string& cue, const std::string& place) {
  constexpr std::string_view kAnd = " + ";
  constexpr size_t kShortest = 4;
  if (cue.find(kAnd) == std::string::npos) return;
  std::set<std::string> parts;
  for (size_t at = 0; at <= cue.size();) {
    const size_t end = std::min(cue.find(kAnd, at), cue.size());
    const std::string part = lower_case(cue.substr(at, end - at));
    if (part.size() < kShortest || !parts.insert(part).second) {
      throw ExitError(Exit::Usage,
                      fmt::format("{}: the parts of '{}' are searched one by one; let them differ, and be of {} "
                                  "letters or more",
                                  place, cue, kShortest));
    }
    at = end + kAnd.size();
  }
}

// Words of an error's own text do not make one of its causes likelier than another.
void check_hint(const std::string& hint, const std::vector<int>& codes, const std::string& place) {
  for (const CudaError& error : kCudaErrors) {
    if (std::find(codes.begin(), codes.end(), error.code) == codes.end()) continue;
    if (lower_case(error.text).find(lower_case(hint)) == std::string::npos) continue;
    throw ExitError(Exit::Usage, fmt::format("{}: '{}' stands in the text of error {} itself; leave the hint out",
                                             place, hint, error.code));
  }
}

void check_also_fix(const std::string& name, const std::vector<std::string>& also, const Catalogue& catalogue,
                    const std::string& place) {
  for (const std::string& id : also) {
    for (const CatalogueTest& test : find_case(catalogue, id)->tests) {
      if (test.name == name && !test.fix.empty()) return;
    }
  }
  throw ExitError(Exit::Usage, fmt::format("{}: no case in 'also' has the fix '{}'", place, name));
}

Scope scope_in(const toml::table& table, const std::string& place) {
  static const std::map<std::string, Scope> kScopes = {
      {"", Scope::Capture}, {"capture", Scope::Capture}, {"graph", Scope::Graph}, {"other", Scope::Other}};
  const std::string name = text_in(table, "scope", place, false);
  const auto known = kScopes.find(name);
  if (known == kScopes.end()) {
    throw ExitError(Exit::Usage, fmt::format("{}: 'scope' is capture, graph or other, not '{}'", place, name));
  }
  return known->second;
}

std::vector<std::shared_ptr<const RE2>> expressions_in(const toml::table& table, const char* key,
                                                       const std::string& place) {
  std::vector<std::shared_ptr<const RE2>> all;
  for (const std::string& text : texts_in(table, key, place)) {
    RE2::Options options(RE2::Latin1);
    options.set_log_errors(false);
    options.set_dot_nl(true);
    auto expression = std::make_shared<const RE2>(text, options);
    if (!expression->ok()) {
      throw ExitError(Exit::Usage, fmt::format("{}: '{}' in '{}': {}", place, text, key, expression->error()));
    }
    all.push_back(std::move(expression));
  }
  return all;
}

// Compiling them takes most of the time of a short answer.
void compile_expressions(const toml::table& table, const std::string& place, Cause& cause) {
  cause.messages = expressions_in(table, "messages", place);
  cause.statements = expressions_in(table, "statements", place);
  cause.symptoms = expressions_in(table, "symptoms", place);
  cause.topics = expressions_in(table, "topics", place);
  if (!cause.alone && cause.says.empty() && cause.messages.empty() && cause.calls.empty() && cause.names.empty() &&
      cause.statements.empty() && cause.symptoms.empty() && cause.topics.empty()) {
    throw ExitError(Exit::Usage, place +
                                     ": nothing can speak for it; give it 'says', 'messages', 'calls', 'names', "
                                     "'statements', 'symptoms' or 'topics'");
  }
}

// The first sentence of a text, on one line.
std::string first_sentence(std::string text) {
  text = text.substr(0, text.find("\n\n"));
  std::replace(text.begin(), text.end(), '\n', ' ');
  const size_t end = text.find(". ");
  return end == std::string::npos ? text : text.substr(0, end + 1);
}

// A thread upstream is more specific than the document.
std::string link_of(const CatalogueCase& one, const std::map<std::string, std::string>& urls) {
  std::string link;
  for (const Json& source : one.sources) {
    const auto url = urls.find(cited_id(source));
    if (url == urls.end()) continue;
    if (source.at("document") == "upstream") return url->second;
    if (link.empty()) link = url->second;
  }
  return link;
}

}  // namespace

std::vector<Cause> read_causes(const std::string& root, const Catalogue& catalogue) {
  const std::string path = root + "/cases/diagnoses.toml";
  const toml::table file = parse_toml(path);
  only_keys(file, {"cause", "unnamed"}, path);
  const auto* entries = file["cause"].as_array();
  if (entries == nullptr) throw ExitError(Exit::Usage, path + ": has no [[cause]]");
  std::map<std::string, std::string> urls;
  if (std::filesystem::exists(root + "/cases/sources.toml")) {
    for (const CitedSource& source : read_sources(root)) urls[source.id] = source.url;
  }
  Terms terms = read_terms(root);
  std::vector<Cause> causes;
  std::vector<const toml::table*> tables;
  std::set<std::string> ids;
  for (const auto& entry : *entries) {
    const std::string place = place_of(path, entry);
    if (!entry.is_table()) throw ExitError(Exit::Usage, place + ": a cause is a table");
    const toml::table& table = *entry.as_table();
    only_keys(table,
              {"id",     "title", "scope",      "other_thread", "victim",  "only_possible", "harmless",   "alone",
               "codes",  "says",  "messages",   "calls",        "names",   "hints",         "statements", "symptoms",
               "topics", "also",  "also_fixes", "fixes",        "useless", "why",           "no_case"},
              place);
    Cause cause;
    cause.id = text_in(table, "id", place);
    if (!ids.insert(cause.id).second)
      throw ExitError(Exit::Usage, fmt::format("{}: '{}' is there twice", place, cause.id));
    const CatalogueCase* known = find_case(catalogue, cause.id);
    cause.has_case = known != nullptr;
    cause.title = text_in(table, "title", place, !cause.has_case);
    if (cause.title.empty()) cause.title = known->title;
    cause.why = text_in(table, "why", place, false);
    cause.no_case = text_in(table, "no_case", place, false);
    if (known != nullptr) {
      if (cause.why.empty()) cause.why = first_sentence(known->why);
      cause.link = link_of(*known, urls);
    }
    cause.scope = scope_in(table, place);
    cause.other_thread = table["other_thread"].value_or(false);
    cause.victim = table["victim"].value_or(false);
    cause.only_possible = table["only_possible"].value_or(false);
    cause.harmless = table["harmless"].value_or(false);
    cause.alone = table["alone"].value_or(false);
    if (const auto* codes = table["codes"].as_array()) {
      for (const auto& code : *codes) cause.codes.push_back(code.value_or(0));
    }
    cause.says = texts_in(table, "says", place);
    cause.calls = texts_in(table, "calls", place);
    cause.names = texts_in(table, "names", place);
    cause.hints = texts_in(table, "hints", place);
    cause.terms = std::move(terms[cause.id]);
    cause.also = texts_in(table, "also", place);
    for (const std::string& id : cause.also) {
      if (find_case(catalogue, id) == nullptr) {
        throw ExitError(Exit::Usage, fmt::format("{}: '{}' in 'also' is not a case", place, id));
      }
    }
    cause.also_fixes = texts_in(table, "also_fixes", place);
    for (const std::string& name : cause.also_fixes) check_also_fix(name, cause.also, catalogue, place);
    cause.fixes = texts_in(table, "fixes", place);
    cause.useless = texts_in(table, "useless", place);
    for (const auto* cues : {&cause.says, &cause.calls, &cause.names, &cause.hints}) {
      for (const std::string& cue : *cues) check_parts(cue, place);
    }
    for (const std::string& hint : cause.hints) check_hint(hint, cause.codes, place);
    if (!cause.has_case && cause.fixes.empty()) {
      throw ExitError(Exit::Usage, place + ": no case of that id; a cause without one needs 'fixes'");
    }
    causes.push_back(std::move(cause));
    tables.push_back(&table);
  }
  in_parallel(causes.size(), [&](size_t i) { compile_expressions(*tables[i], place_of(path, *tables[i]), causes[i]); });
  return causes;
}

std::map<std::string, std::vector<std::string>> read_alike(const std::string& root) {
  const std::string path = root + "/cases/diagnoses.toml";
  const toml::table file = parse_toml(path);
  std::map<std::string, std::vector<std::string>> alike;
  const auto* entries = tables_in(file, "cause", path, "[[cause]]");
  if (entries == nullptr) return alike;
  for (const auto& entry : *entries) {
    const std::string place = place_of(path, entry);
    alike[text_in(*entry.as_table(), "id", place)] = texts_in(*entry.as_table(), "also", place);
  }
  return alike;
}

std::map<std::string, std::string> read_unnamed(const std::string& root, const Catalogue& catalogue) {
  const std::string path = root + "/cases/diagnoses.toml";
  const toml::table file = parse_toml(path);
  std::map<std::string, std::string> reasons;
  const auto* entries = tables_in(file, "unnamed", path, "[[unnamed]]");
  if (entries == nullptr) return reasons;
  for (const auto& entry : *entries) {
    const std::string place = place_of(path, entry);
    only_keys(*entry.as_table(), {"cases", "reason"}, place);
    const std::string reason = text_in(*entry.as_table(), "reason", place);
    for (const std::string& id : texts_in(*entry.as_table(), "cases", place)) {
      if (find_case(catalogue, id) == nullptr) {
        throw ExitError(Exit::Usage, fmt::format("{}: '{}' is not a case", place, id));
      }
      reasons[id] = reason;
    }
  }
  return reasons;
}

std::vector<std::string> cues_of(const std::vector<Cause>& causes) {
  constexpr size_t kTelling = 20;  // Letters: shorter words are in any log.
  std::vector<std::string> cues;
  for (const Cause& cause : causes) {
    for (const std::string& cue : cause.says) {
      const std::string part = cue.substr(0, cue.find(" + "));
      if (part.size() >= kTelling) cues.push_back(part);
    }
  }
  return cues;
}

}  // namespace recapture::explain
