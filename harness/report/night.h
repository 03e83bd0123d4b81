// A night, as text, as Markdown for the summary of a job on GitHub, and as JSON.
#pragma once
#include <string>

#include "harness/base/json.h"
#include "harness/nightly/report.h"

namespace recapture::report {

// "held in 2026-11-21; in 2026-11-22 it fails: …"; "" if no night saw a change.
std::string sentence_of(const nightly::TestChange& change);
// "red on 4 of 6 nights: 2026-11-21, 22, 23, 26"
std::string streak_in_words(const nightly::TestState& test);
// "edited since 2026-11-26, and red before, since 2026-11-21"
std::string unresolved_words(const nightly::TestState& test);
// Why a test is no longer red.
std::string closing_words(nightly::NightState state);

std::string render_text(const nightly::NightReport& report);
std::string render_markdown(const nightly::NightReport& report);  // Below GitHub's limit for a job's summary.

// {"night", "before", "answer", "complete", "head", "notes", "missing": [{"task", "release", "gpu", "state", "since",
// "reason"}],
//  "machines": [{"machine", "release", "gpu", "first", "judged", "changed",
//                "red": [{"test", "state", "since", "consequence", "sentence", "fingerprint", "runs", "nights",
//                "window",
//                         "seconds"}],
//                "flaky", "healed", "open", "missing", "changes", "slower", "seconds", "jobs",
//                "slowest": [{"test", "seconds", "jobs"}],
//                "not_judged": [{"reason", "since", "accepted", "never", "tests"}], "not_compared", "unexpected"}]}
Json render_json(const nightly::NightReport& report);

}  // namespace recapture::report
