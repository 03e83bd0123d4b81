// Versions of releases, drivers and CUDA runtimes, and ranges of them.
#pragma once
#include <string>
#include <vector>

namespace recapture {

// As PyPI compares them (PEP 440), and so candidates, nightlies and vendors' builds have their place:
// 2.9.1 < 2.10.0.dev20251001 < 2.10.0a0+0123abc.nv25.10 < 2.10.0rc1 < 2.10 = 2.10.0 < 2.10.0+cu130 < 2.10.0.post1.
// Of a machine's name, "2.11.0, NVIDIA H200", the first word counts. Throws ExitError(Usage) on what is no version.
bool older(const std::string& a, const std::string& b);

// Whether the text, or its first word, is a version: "cuda13" and "" are not.
bool is_version(const std::string& text);

// 2.9 of 2.9.1, 2.16 of 2.16.0.dev20261124: the releases that differ by fixes alone. What is no version is a line of
// its own, as cuda13 is.
std::string release_line(const std::string& release);

// 2.6.0 of 2.6.0+cu118: the same sources in another build.
std::string without_local(const std::string& version);

// "2.16.0.dev" of a nightly build, whose version changes every night; any other release as it is.
std::string without_nightly_date(const std::string& release);

// Whether a version satisfies ">=2.8, <2.13". Only the order counts, without what follows a +: 2.13.0rc1 is older than
// 2.13.0 and so satisfies this. Throws ExitError(Usage) on anything else than < <= > >= == and one to three numbers.
bool satisfies(const std::string& version, const std::string& range);

// The same; an empty range holds every version and what is none, any other range no text that is no version.
bool in_range(const std::string& version, const std::string& range);

// Whether any version may lie in both.
bool can_meet(const std::string& range, const std::string& other);

// Throws ExitError(Usage) on what is no version.
void require_version(const std::string& text);

// Drivers add a version to the names of their calls, and another one in the next release: cuMemAlloc of cuMemAlloc_v2.
std::string without_versions(const std::string& text);

// The LibTorch releases of ci/matrix.toml, oldest first.
std::vector<std::string> read_matrix(const std::string& root);

// The names of its builds that are no releases: nightlies, candidates, vendors' builds. Throws ExitError(Usage) where
// one could be taken for something else.
std::vector<std::string> read_builds(const std::string& root);

}  // namespace recapture
