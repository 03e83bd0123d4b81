// Versions of releases, drivers and CUDA runtimes, and ranges of them.
#pragma once
#include <string>
#include <vector>

namespace recapture {

// "2.9.1" < "2.10.0". Missing parts count as zero. Throws Stop(Usage) on what is no version.
bool older(const std::string& a, const std::string& b);

// Whether the text begins with a number: "cuda13" and "" do not.
bool is_version(const std::string& text);

// Whether a version satisfies ">=2.8, <2.13". Throws Stop(Usage) on anything else than < <= > >= == and a version.
bool satisfies(const std::string& version, const std::string& range);

// The same; an empty range holds every version and what is none, any other range no text that is no version.
bool in_range(const std::string& version, const std::string& range);

// Whether any version may lie in both.
bool can_meet(const std::string& range, const std::string& other);

// Throws Stop(Usage) on anything else than one to three numbers.
void require_version(const std::string& text);

// The LibTorch releases of ci/matrix.toml, oldest first.
std::vector<std::string> read_matrix(const std::string& root);

}  // namespace recapture
