"""Risks of an attacker who has all synthetic copies of a release, for 1, 2, 5 and 10 copies.

python -m tests.benchmarks.copies JOB.yaml [JOB.yaml ...]
"""

from __future__ import annotations

import sys

from anonpipe.job.model import load_job, parse_job
from anonpipe.pipeline.run import assess_only
from anonpipe.rng import trial_secret
from anonpipe.verify.catalogue import MEASURED

SHOWN = ("reidentification_rate", "linkage.group", "membership_auc", "membership.traced_auc", "singling_out.one")


def main() -> None:
    """Print the figures of each job, by number of copies."""
    for path in sys.argv[1:]:
        content = load_job(path).model_dump(mode="json")
        content["gates"] |= dict.fromkeys(MEASURED & content["gates"].keys())
        content["measure"] |= {"utility": False, "hold_out": 0.1}
        for copies in (1, 2, 5, 10):
            content["release"]["copies"] = copies
            with trial_secret(b"0123456789abcdef" * 2):
                found = {figure.name: figure for figure in assess_only(parse_job(content))[1].risk}
            values = (f"{name} {found[name].value:.3f}" for name in SHOWN if name in found)
            print(f"{path}, {copies} copies: {', '.join(values)}", flush=True)


if __name__ == "__main__":
    main()
