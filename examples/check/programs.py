"""Shared by these programs: `python PROGRAM VARIANT` runs one variant and prints check()'s report as JSON.

A line that must be found is marked `# FOUND VARIANT: KIND`, with alternatives separated by |. A variant without a mark
must have no finding. The first line of a program names its case; `# without NAME: why` leaves a test of the case out.
"""
import json
import sys


def run(variants):
    """Runs the variant from the command line. It returns a report, several, or why it cannot run here."""
    name = sys.argv[1]
    import torch
    if not torch.cuda.is_available():
        print("there is no GPU", file=sys.stderr)
        sys.exit(77)
    reports = variants[name]()
    if isinstance(reports, str):
        print(reports, file=sys.stderr)
        sys.exit(77)
    reports = reports if isinstance(reports, list) else [reports]
    print(json.dumps([report.to_dict() for report in reports]))
