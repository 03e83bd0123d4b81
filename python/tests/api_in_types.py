"""Uses of the public interface for mypy --strict (ci/test). A name that is not there must be an error: without that error
the comment that ignores it would be one."""
from typing import List, Optional

from typing_extensions import assert_type

import recapture


def blames(quiet: bool) -> Optional[str]:
    try:
        with recapture.blame(quiet=quiet) as report:
            pass
    except (recapture.NotHeard, recapture.NotJudged) as problem:
        return str(problem)
    assert_type(report, recapture.Report)
    assert_type(report.failures, List[recapture.Failure])
    return report.failures[0].where if report else None


def checks() -> List[recapture.Finding]:
    assert_type(recapture.check(print), recapture.CheckReport)
    with recapture.check() as report:
        pass
    assert_type(report, recapture.CheckReport)
    return [finding for finding in report.findings if finding.kind is recapture.Kind.FREED and isinstance(finding.line, recapture.Line)]


recapture.blaem()  # type: ignore[attr-defined]
recapture.check(print, sets=3)  # type: ignore[call-overload]
