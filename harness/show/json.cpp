#include "harness/show/json.h"

#include "harness/judge/index.h"

namespace recapture {

Json as_json(const Judged& judged) {
  const Record& record = judged.record;
  Json all = Json::array();
  for (const Row& row : judged.rows) {
    all.push_back({{"case", row.case_id},
                   {"family", row.family},
                   {"test", row.name},
                   {"release", row.release},
                   {"gpu", row.gpu},
                   {"driver", row.driver},
                   {"cuda_runtime", record.where("cuda_runtime")},
                   {"packed", record.environment.json().value("packed", false)},
                   {"env", record.environment.machine.variables},
                   {"nccl", record.where("nccl")},
                   {"break", word(record.broken())},
                   {"result", row.ran ? std::string(word(row.result)) : "not run"},
                   {"verdict", std::string(word(row.verdict))},
                   {"seen", render_seen(row)},
                   {"code", row.code},
                   {"effect", row.effect ? word(*row.effect) : ""},
                   {"reason", row.reason},
                   {"source", row.source},
                   {"seconds", row.seconds},
                   {"record", record.path},
                   {"started", record.environment.started},
                   {"end", record.end}});
  }
  return all;
}

}  // namespace recapture
