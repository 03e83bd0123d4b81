#include "harness/show/json.h"

namespace recapture {

Json as_json(const std::vector<Row>& rows) {
  Json all = Json::array();
  for (const Row& row : rows) {
    all.push_back({{"case", row.case_id},
                   {"test", row.name},
                   {"release", row.release},
                   {"gpu", row.gpu},
                   {"driver", row.driver},
                   {"result", row.ran ? std::string(word(row.result)) : "not run"},
                   {"verdict", std::string(word(row.verdict))},
                   {"seen", row.seen},
                   {"code", row.code},
                   {"effect", row.effect},
                   {"seconds", row.seconds}});
  }
  return all;
}

}  // namespace recapture
