// Tests use the names of all folders without qualification.
#pragma once

namespace recapture {
namespace blame {}
namespace commands {}
namespace compare {}
namespace explain {}
namespace lint {}
namespace nightly {}
namespace report {}
namespace run {}
namespace timeline {}
namespace triage {}
using namespace blame;
using namespace commands;
using namespace compare;
using namespace explain;
using namespace lint;
using namespace nightly;
using namespace report;
using namespace run;
using namespace timeline;
using namespace triage;
}  // namespace recapture
