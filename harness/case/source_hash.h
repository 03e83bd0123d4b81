// A hash of what a case does. Comments, white space, the description, our own includes and the guards that leave
// LibTorch out of a build do not count, so that better prose or another folder does not make a record stale. Everything
// else counts.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace recapture {

// The source with comments dropped and every run of white space outside literals made one blank.
inline std::string code_only(std::string_view s) {
  std::string code;
  bool gap = false;
  auto take = [&](char c) {
    if (gap && !code.empty()) code += ' ';
    gap = false;
    code += c;
  };
  for (size_t i = 0; i < s.size();) {
    const char c = s[i], next = i + 1 < s.size() ? s[i + 1] : '\0';
    if (c == '/' && next == '/') {
      while (i < s.size() && s[i] != '\n') ++i;
      gap = true;
    } else if (c == '/' && next == '*') {
      const size_t end = s.find("*/", i + 2);
      i = end == std::string_view::npos ? s.size() : end + 2;
      gap = true;
    } else if (c == 'R' && next == '"') {  // A raw string, R"tag( … )tag".
      const size_t open = s.find('(', i);
      if (open == std::string_view::npos) break;
      const std::string close = ")" + std::string(s.substr(i + 2, open - i - 2)) + "\"";
      const size_t end = s.find(close, open);
      const size_t stop = end == std::string_view::npos ? s.size() : end + close.size();
      for (; i < stop; ++i) take(s[i]);
    } else if (c == '"' || (c == '\'' && (code.empty() || !isalnum(static_cast<unsigned char>(code.back()))))) {
      take(s[i++]);  // A quote after a letter or digit separates digits (1'000) and opens nothing.
      while (i < s.size() && s[i] != c && s[i] != '\n') {
        if (s[i] == '\\' && i + 1 < s.size()) take(s[i++]);
        take(s[i++]);
      }
      if (i < s.size() && s[i] == c) take(s[i++]);
    } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      gap = true;
      ++i;
    } else {
      take(s[i++]);
    }
  }
  return code;
}

// The source without includes of our own headers, without build guards, and without the description.
inline std::string without_description(std::string_view source) {
  std::string kept;
  bool describes = false;
  for (size_t at = 0; at < source.size();) {
    const size_t end = std::min(source.find('\n', at), source.size() - 1) + 1;
    const std::string_view line = source.substr(at, end - at);
    const auto starts = [&](std::string_view start) { return line.substr(0, start.size()) == start; };
    describes = describes || starts("RECAPTURE_CASE = {");
    const bool place = starts("#include \"fixtures/") || starts("#include \"harness/") ||
                       starts("#ifdef RECAPTURE_HAS_LIBTORCH") || starts("#endif  // RECAPTURE_HAS_LIBTORCH");
    if (!describes && !place) kept += line;
    describes = describes && !starts("};");
    at = end;
  }
  return kept;
}

// 64-bit FNV-1a in hexadecimal. Not cryptographic.
inline std::string hash_of(std::string_view text) {
  uint64_t hash = 14695981039346656037u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  char number[17];
  std::snprintf(number, sizeof number, "%016llx", static_cast<unsigned long long>(hash));
  return number;
}

// The hash of one file.
inline std::string source_hash(std::string_view source) { return hash_of(code_only(without_description(source))); }

// The headers of fixtures/ that a source includes, "fixtures/cuda/gpu.h".
inline std::vector<std::string> fixtures_in(std::string_view source) {
  constexpr std::string_view kInclude = "#include \"";
  std::vector<std::string> found;
  for (size_t at = 0; (at = source.find("#include \"fixtures/", at)) != std::string_view::npos;) {
    at += kInclude.size();
    found.emplace_back(source.substr(at, source.find('"', at) - at));
  }
  return found;
}

// A file's contribution to the hash.
struct HashedSource {
  HashedSource(const std::string& source) : hash(source_hash(source)), fixtures(fixtures_in(source)) {}
  std::string hash;
  std::vector<std::string> fixtures;
};

// The hash of all that runs: the case, the fixtures that it includes, and the sources linked with them, which have the
// header's name and folder. `read` gives a file by its path in the tree, or nothing. The file's folder does not count.
template <class Read>
std::string code_hash(const HashedSource& source, Read&& read) {
  std::set<std::string> seen;
  std::multiset<std::string> hashes;
  std::vector<std::string> left = source.fixtures;
  while (!left.empty()) {
    const std::string path = left.back();
    left.pop_back();
    if (!seen.insert(path).second) continue;
    const std::optional<HashedSource>& file = read(path);
    if (!file) continue;
    hashes.insert(file->hash);
    left.insert(left.end(), file->fixtures.begin(), file->fixtures.end());
    if (path.size() > 2 && path.substr(path.size() - 2) == ".h")
      left.push_back(path.substr(0, path.size() - 2) + ".cpp");
  }
  std::string all = source.hash;
  for (const std::string& hash : hashes) all += hash;
  return hash_of(all);
}

}  // namespace recapture
