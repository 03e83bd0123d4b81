// The first lines of a record that a test makes up.
#pragma once
#include "harness/base/json.h"
#include "harness/tests/namespaces.h"

namespace recapture {

// What every run says of itself, with `more` beside or instead.
inline Json fake_environment(const Json& more) {
  Json environment = {{"recapture", 2},     {"release", "2.15.0"},       {"gpu", "G"},
                      {"driver", "1"},      {"cuda_runtime", "12.4"},    {"packed", false},
                      {"break", "nothing"}, {"volatile", Json::object()}};
  environment.update(more);
  return environment;
}

// A case of these tests.
inline Json fake_case(const Json& tests, const Json& more = Json::object()) {
  Json one = {{"case", "c"},        {"family", "f"},          {"hash", "h"},
              {"title", "A title"}, {"documented", "D"},      {"needs", "gpu"},
              {"nature", "defect"}, {"fidelity", "verbatim"}, {"sources", Json::array()},
              {"deadline_s", 60},   {"effect", "raises"},     {"fixes", Json::object()},
              {"tests", tests}};
  one.update(more);
  return one;
}

}  // namespace recapture
