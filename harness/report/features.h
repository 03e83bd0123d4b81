// The CUDA-graph features that a program uses, as text and JSON.
#pragma once
#include <string>

#include "harness/base/json.h"
#include "harness/compare/features.h"

namespace recapture::report {

// The file that compare::read_features() reads, with a comment for each feature.
std::string render_toml(const compare::Features& features);

std::string render_text(const compare::Features& features);
std::string render_markdown(const compare::Features& features);
Json render_json(const compare::Features& features);

}  // namespace recapture::report
