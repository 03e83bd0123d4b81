// Releases and their order; versions of drivers and CUDA runtimes, and ranges of them.
#pragma once
#include <compare>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace recapture {

struct Version;  // As PyPI reads it (PEP 440).

// A release of LibTorch or of another library, or the name of a build without a version, such as "cuda13". Parsed once.
class Release {
 public:
  Release() = default;
  explicit Release(std::string name);

  const std::string& name() const { return name_; }
  bool empty() const { return name_.empty(); }
  bool is_version() const { return version_ != nullptr; }

  // By version alone, as PyPI orders them, with candidates, nightlies and vendors' builds: 2.9.1 < 2.10.0.dev20251001 <
  // 2.10.0a0+0123abc.nv25.10 < 2.10.0rc1 < 2.10 = 2.10.0 < 2.10.0+cu130 < 2.10.0.post1. False unless both are versions.
  bool is_older_than(const Release& other) const;

  // For sorting and as a key: versions, the oldest first, then other names as text. 2.10 and 2.10.0 are neighbours, not
  // equal.
  std::strong_ordering operator<=>(const Release& other) const;
  bool operator==(const Release& other) const { return name_ == other.name_; }
  bool operator==(std::string_view name) const { return name_ == name; }

  // 2.9 of 2.9.1, 2.16 of 2.16.0.dev20261124: releases of one line differ only by fixes. A name that is not a version
  // is its own line.
  std::string line() const;

  // 2.16.0.dev20261124, and 2.15.0rc3: what PyPI calls a development release, and a release candidate.
  bool is_nightly() const;
  bool is_candidate() const;
  // Neither comes before a release nor has a part after +.
  bool is_final() const;
  // The words after +, in lower case: "acme" of 2.11.0+acme, "git0123abc" of 2.15.0a0+git0123abc.
  std::vector<std::string> labels() const;

  // "2.16.0.dev" of a nightly build, whose version changes every night; any other release unchanged.
  std::string without_nightly_date() const;

 private:
  std::string name_;
  std::shared_ptr<const Version> version_;  // Shared by copies.
};

// For lists that a person reads: the newest first, names that are no version last.
struct NewestFirst {
  bool operator()(const Release& one, const Release& other) const;
};

// Names in the order of Release.
void sort_releases(std::vector<std::string>& names);

// The known release that a word names: "2.6.0" by "2.6", the newest with this prefix, and by "2.6.0+cu124", the form of
// torch.__version__; "2.16.0.dev20261124+cu132" by "2.16.0.dev20261124". A release comes before candidates and forks of
// its line. The word itself if it is known or names none.
std::string resolve_release(const std::string& word, const std::vector<std::string>& known);

// The same, but a release for which `yields` is true is named only if the word names no other.
using Yields = std::function<bool(const std::string& release)>;
std::string resolve_release(const std::string& word, std::vector<std::string> known, const Yields& yields);

// Whether the text is a version: "cuda13" and "" are not.
bool is_version(const std::string& text);

// 2.6.0 of 2.6.0+cu118: the same sources in another build.
std::string without_local(const std::string& version);

// Whether a version satisfies ">=2.8, <2.13". A candidate, a nightly or a build with a part after + counts as the
// release that it becomes: 2.13.0rc1 does not satisfy this, as 2.13.0 does not. Throws
// ExitError(Usage) for anything but < <= > >= == and one to three numbers.
bool satisfies(const std::string& version, const std::string& range);

// The same, but an empty range contains every text, and any other range only versions.
bool in_range(const std::string& version, const std::string& range);

// The same for a version that no record has, with its neighbour on record: a range that contains the neighbour contains
// the version too, unless one of < > >= excludes it. "==" and "<=" name versions on record, and exclude none but those.
bool in_range_until_measured(const std::string& version, const std::string& range, const std::string& neighbour);

// Whether a version can satisfy both.
bool can_meet(const std::string& range, const std::string& other);

// The release with a label after its +: "2.11.0+acme", "2.11.0+cu130.acme".
std::string with_label(const std::string& version, const std::string& label);
// Whether it can be one: words of letters and digits in lower case, with dots between.
bool is_label(const std::string& text);

// The first digits of PyTorch's own commit of a release, by the ci/matrix.toml that this program was built with; "" if
// it has none.
std::string git_of_release(const std::string& version);

// Throws ExitError(Usage) if it is not a version.
void require_version(const std::string& text);

// Drivers append a version to call names, which changes between releases: cuMemAlloc of cuMemAlloc_v2.
std::string without_versions(const std::string& text);

// The LibTorch releases of ci/matrix.toml, oldest first.
std::vector<std::string> read_matrix(const std::string& root);

// The names of its builds that are not releases: nightlies, candidates, vendors' builds. Throws ExitError(Usage) for an
// ambiguous name.
std::vector<std::string> read_builds(const std::string& root);

}  // namespace recapture
