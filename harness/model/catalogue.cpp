#include "harness/model/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <sstream>

#include "harness/base/escape.h"
#include "harness/base/exit.h"
#include "harness/base/file.h"
#include "harness/base/reason.h"
#include "harness/base/toml.h"
#include "harness/base/xz.h"
#include "harness/model/operator_cases.h"

namespace recapture {
namespace {

constexpr size_t kMost = size_t{1} << 26;  // A hundred times the committed one.

// The value of `word`. Throws ExitError(Usage) with the place if it is unknown.
template <class E, size_t N>
E value_of(const std::string& word, const std::array<std::string_view, N>& words, const char* type,
           const std::string& place) {
  const auto value = detail::enum_of<E>(words, word);
  if (!value) {
    throw ExitError(Exit::Usage, fmt::format("{}: '{}' is not a known {}; known are {}", place, escape_control(word),
                                             type, fmt::join(words, ", ")));
  }
  return *value;
}

// Throws ExitError(Usage) for an unknown word: such a case would run everywhere.
Needs needs_from(const Json& json, const std::string& place) {
  const auto words = json.get<std::string>();
  if (const auto needs = Needs::read(words)) return *needs;
  throw ExitError(Exit::Usage, fmt::format("{}: a word of the needs '{}' is not known; harness/case/types.h has them",
                                           place, escape_control(words)));
}

template <class T>
const T* find_id(const std::vector<T>& all, const std::string& id) {
  const auto found = std::ranges::find_if(all, [&](const T& one) { return one.id == id; });
  return found == all.end() ? nullptr : &*found;
}

CatalogueTest test_from(const Json& json, const std::string& case_id) {
  CatalogueTest test;
  test.name = json.at("name");
  const std::string place = case_id + "." + test.name;
  test.kind = value_of<Kind>(json.at("kind"), kKinds, "kind", place);
  if (json.contains("effect")) test.effect = value_of<Effect>(json.at("effect"), kEffects, "effect", place);
  test.fix = json.value("fix", "");
  test.releases = json.value("releases", "");
  return test;
}

CatalogueCase case_from(const Json& json) {
  CatalogueCase one;
  one.id = json.at("id");
  one.family = json.at("family");
  one.title = json.at("title");
  one.why = json.at("why");
  one.sources = json.at("sources");
  one.documented = json.at("documented");
  one.nature = value_of<Nature>(json.at("nature"), kNatures, "nature", one.id);
  one.fidelity = value_of<Fidelity>(json.at("fidelity"), kFidelities, "fidelity", one.id);
  one.tags = json.at("tags").get<std::vector<std::string>>();
  one.features = json.at("features").get<std::vector<std::string>>();
  one.needs = needs_from(json.at("needs"), one.id);
  one.deadline_s = int_at(json, "deadline_s").value_or(0);
  if (one.deadline_s < 1) throw std::runtime_error("'deadline_s' is not a number of seconds");
  one.effect = value_of<Effect>(json.at("effect"), kEffects, "effect", one.id);
  if (!one.sources.is_array()) throw std::runtime_error("'sources' is not a list");
  for (const Json& source : one.sources) {
    if (!source.at("document").is_string() || !source.at("heading").is_string()) throw std::runtime_error("a source");
  }
  for (const Json& test : json.at("tests")) one.tests.push_back(test_from(test, one.id));
  return one;
}

}  // namespace

bool repeats(const CatalogueCase& one, const CatalogueTest& test) {
  return is_of_program(test.name) &&
         !std::ranges::all_of(one.tests, [](const CatalogueTest& other) { return is_of_program(other.name); });
}

const CatalogueCase* find_case(const Catalogue& catalogue, const std::string& id) { return find_id(catalogue, id); }

std::string catalogue_path(const std::string& root) {
  const std::string plain = root + "/cases/catalogue.json";
  return std::filesystem::exists(plain) ? plain : plain + ".xz";
}

Catalogue read_catalogue(const std::string& root) {
  const std::string path = catalogue_path(root);
  if (!std::filesystem::exists(path)) {
    throw ExitError(Exit::Usage, path + " is not there; where cases are built, `recapture dev catalogue` prints it");
  }
  Catalogue catalogue;
  std::string text = contents_of(path);
  if (path.ends_with(".xz")) text = unpacked_by_xz(text, path, kMost);
  try {
    const Json json = parse_json(text);
    if (!json.is_array()) throw std::runtime_error("it is not an array");
    for (const Json& one : json) catalogue.push_back(case_from(one));
  } catch (const std::bad_alloc&) {
    throw;  // Nothing is wrong with the file.
  } catch (const std::exception& e) {
    throw ExitError(Exit::Usage, fmt::format("{}: not a catalogue: case {}: {}", path, catalogue.size() + 1,
                                             escape_control(reason_of(e))));
  }
  return catalogue;
}

Json render_json(const CatalogueCase& one) {
  Json tests = Json::array();
  for (const CatalogueTest& test : one.tests) {
    Json json = {{"name", test.name}, {"kind", to_string(test.kind)}};
    if (test.effect) json["effect"] = to_string(*test.effect);
    if (!test.fix.empty()) json["fix"] = test.fix;
    if (!test.releases.empty()) json["releases"] = test.releases;
    tests.push_back(json);
  }
  return {{"id", one.id},
          {"family", one.family},
          {"title", one.title},
          {"why", one.why},
          {"sources", one.sources},
          {"documented", one.documented},
          {"nature", to_string(one.nature)},
          {"fidelity", to_string(one.fidelity)},
          {"tags", one.tags},
          {"features", one.features},
          {"needs", one.needs.words()},
          {"deadline_s", one.deadline_s},
          {"effect", to_string(one.effect)},
          {"tests", tests}};
}

std::string render_text(const Catalogue& catalogue) {
  std::string lines;  // One a case: indented, the file would be 36 kB larger.
  for (const CatalogueCase& one : catalogue) lines += (lines.empty() ? "" : ",\n") + render_json(one).dump();
  return "[\n" + lines + "\n]\n";
}

CatalogueCase catalogue_case(const Json& described, const std::string& source) {
  CatalogueCase one;
  one.id = described.at("case");
  const std::string effect = described.value("effect", "");
  if (effect.empty()) {
    throw ExitError(Exit::Usage, one.id + " names no effect; build it again, it is an old binary");
  }
  for (const char* key : {"tags", "features"}) {
    if (described.contains(key)) continue;
    throw ExitError(Exit::Usage, fmt::format("{} names no {}; build it again, it is an old binary", one.id, key));
  }
  one.family = described.at("family");
  one.title = described.at("title");
  one.why = why_of(source);
  one.sources = described.at("sources");
  one.documented = described.at("documented");
  one.nature = value_of<Nature>(described.at("nature"), kNatures, "nature", one.id);
  one.fidelity = value_of<Fidelity>(described.at("fidelity"), kFidelities, "fidelity", one.id);
  one.effect = value_of<Effect>(effect, kEffects, "effect", one.id);
  one.tags = described.at("tags").get<std::vector<std::string>>();
  one.features = described.at("features").get<std::vector<std::string>>();
  one.needs = needs_from(described.at("needs"), one.id);
  one.deadline_s = described.at("deadline_s");
  const Json effects = described.value("effects", Json::object()), fixes = described.value("fixes", Json::object());
  const Json releases = described.value("fix_releases", Json::object());
  for (const std::string name : described.at("tests")) {
    const std::string place = one.id + "." + name;
    const auto kind = kind_of_test(one.id, name);
    if (!kind) throw ExitError(Exit::Usage, place + ": the name of a test begins with Control, Reproduces or Fix");
    CatalogueTest test{name, *kind, std::nullopt, "", ""};
    one.tests.push_back(test);
  }
  for (CatalogueTest& test : one.tests) {
    // Where the program is all of the case, the description is of its functions.
    const bool is_described = is_of_program(test.name) && !repeats(one, test);
    const std::string described_as = is_described ? test.name.substr(kProgramPrefix.size()) : test.name;
    if (test.kind == Kind::Reproduces) {
      test.effect = value_of<Effect>(effects.value(described_as, effect), kEffects, "effect", one.id + "." + test.name);
    }
    if (test.kind == Kind::Fix) {
      test.fix = fixes.value(described_as, "");
      test.releases = releases.value(described_as, "");
    }
  }
  return one;
}

std::string why_of(const std::string& source) {
  std::string text;
  bool begins = true;  // A paragraph.
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line) && line.rfind("//", 0) == 0;) {
    line.erase(0, line.size() > 2 && line[2] == ' ' ? 3 : 2);
    if (line.rfind("Alone:", 0) == 0) continue;
    if (line.find_first_not_of(' ') == std::string::npos) {
      begins = true;
      continue;
    }
    text += (text.empty() ? "" : begins ? "\n\n" : " ") + line;
    begins = false;
  }
  return text;
}

std::string function_at(const std::string& source, size_t position) {
  const size_t begin = source.rfind('\n', position) + 1, end = source.find("\n}\n", position);
  return end == std::string::npos ? "" : source.substr(begin, end + 3 - begin);
}

std::string test_in(const std::string& source, const std::string& test) {
  const size_t name = source.find(", " + test + ") {\n");
  return name == std::string::npos ? "" : function_at(source, name);
}

std::string first_difference(const Catalogue& committed, const Catalogue& built) {
  size_t i = 0, j = 0;
  while (i < committed.size() || j < built.size()) {
    if (j == built.size() || (i < committed.size() && committed[i].id < built[j].id)) {
      return committed[i].id + " is in the catalogue and is not built";
    }
    if (i == committed.size() || built[j].id < committed[i].id) return built[j].id + " is not in the catalogue";
    const Json then = render_json(committed[i++]), now = render_json(built[j++]);
    for (const auto& [key, value] : now.items()) {
      if (then.at(key) != value) return fmt::format("{} differs from the catalogue in '{}'", built[j - 1].id, key);
    }
  }
  return "";
}

Names names_in(const Catalogue& catalogue) {
  Names names;
  std::set<std::string> families;
  for (const CatalogueCase& one : catalogue) {
    families.insert(one.family);
    names.cases.push_back(one.id);
    for (const CatalogueTest& test : one.tests) names.tests.push_back(one.id + "." + test.name);
  }
  names.families.assign(families.begin(), families.end());
  return names;
}

Catalogue selected(const Catalogue& catalogue, const std::vector<std::string>& words) {
  if (words.empty()) return catalogue;
  const Names names = names_in(catalogue);
  std::set<std::string> wanted;
  for (const std::string& word : words) {
    for (const std::string& name : named(word, names)) wanted.insert(name);
  }
  Catalogue some;
  for (CatalogueCase one : catalogue) {
    if (wanted.count(one.family) == 0 && wanted.count(one.id) == 0) {
      const auto unnamed = [&](const CatalogueTest& test) { return wanted.count(one.id + "." + test.name) == 0; };
      std::erase_if(one.tests, unnamed);
      if (one.tests.empty()) continue;
    }
    some.push_back(one);
  }
  return some;
}

std::vector<CitedSource> read_sources(const std::string& root) {
  const std::string path = root + "/cases/sources.toml";
  std::vector<CitedSource> sources;
  if (!std::filesystem::exists(path)) return sources;
  const toml::table file = parse_toml(path);
  if (const auto* list = tables_in(file, "source", path, "[[source]]")) {
    for (const auto& node : *list) {
      const std::string place = place_of(path, node);
      const auto* entry = node.as_table();
      sources.push_back({text_in(*entry, "id", place), text_in(*entry, "title", place), text_in(*entry, "url", place)});
    }
  }
  return sources;
}

const CitedSource* find_source(const std::vector<CitedSource>& sources, const std::string& id) {
  return find_id(sources, id);
}

std::string cited_id(const Json& source) {
  const std::string document = text_at(source, "document");
  return document == "upstream" ? text_at(source, "heading") : document;
}

}  // namespace recapture
