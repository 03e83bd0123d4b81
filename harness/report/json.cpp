#include "harness/report/json.h"

#include "harness/store/select.h"
#include "harness/verdict/duration.h"
#include "harness/words/neighbour.h"
#include "harness/words/observation.h"

namespace recapture::report {

Json render_json(const JudgedRun& judged) {
  const Record& record = judged.record;
  Json all = Json::array();
  for (const TestVerdict& row : judged.rows) {
    all.push_back({{"case", row.case_id},
                   {"family", row.family},
                   {"test", row.name},
                   {"release", row.release},
                   {"gpu", row.gpu},
                   {"driver", row.driver},
                   {"cuda_runtime", record.env("cuda_runtime")},
                   {"packed", record.environment.json().value("packed", false)},
                   {"env", record.environment.machine.variables},
                   {"nccl", record.env("nccl")},
                   {"break", to_string(record.broken())},
                   {"result", row.ran ? std::string(to_string(row.result)) : "not run"},
                   {"verdict", std::string(to_string(row.verdict))},
                   {"seen", render_observed(row)},
                   {"code", row.code},
                   {"effect", row.effect ? to_string(*row.effect) : ""},
                   {"guess", row.is_guess},
                   {"nearest_release", judged.neighbour.release},
                   {"nearest_machine", nearest_machine(judged.neighbour)},
                   {"reason", row.reason},
                   {"source", row.source},
                   {"seconds", row.seconds},
                   {"jobs", width_of(record, row.case_id)},
                   {"record", record.path},
                   {"started", record.environment.started},
                   {"end", record.end}});
  }
  return all;
}

}  // namespace recapture::report
