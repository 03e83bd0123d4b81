// Versions of releases, drivers and CUDA runtimes, and ranges of them.
#pragma once
#include <string>
#include <vector>

namespace recapture {

// Compares as PyPI does (PEP 440), including candidates, nightlies and vendors' builds: 2.9.1 < 2.10.0.dev20251001 <
// 2.10.0a0+0123abc.nv25.10 < 2.10.0rc1 < 2.10 = 2.10.0 < 2.10.0+cu130 < 2.10.0.post1. Of a machine's name, "2.11.0,
// NVIDIA H200", only the first word counts. Throws ExitError(Usage) if it is not a version.
bool older(const std::string& a, const std::string& b);

// Whether the text, or its first word, is a version: "cuda13" and "" are not.
bool is_version(const std::string& text);

// 2.9 of 2.9.1, 2.16 of 2.16.0.dev20261124: releases of one line differ only by fixes. A name that is not a version, as
// cuda13, is its own line.
std::string release_line(const std::string& release);

// 2.6.0 of 2.6.0+cu118: the same sources in another build.
std::string without_local(const std::string& version);

// "2.16.0.dev" of a nightly build, whose version changes every night; any other release unchanged.
std::string without_nightly_date(const std::string& release);

// Whether a version satisfies ">=2.8, <2.13". Only the order counts, without the part after +: 2.13.0rc1 is older than
// 2.13.0 and so satisfies this. Throws ExitError(Usage) for anything but < <= > >= == and one to three numbers.
bool satisfies(const std::string& version, const std::string& range);

// The same, but an empty range contains every text, and any other range only versions.
bool in_range(const std::string& version, const std::string& range);

// Whether a version can satisfy both.
bool can_meet(const std::string& range, const std::string& other);

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
