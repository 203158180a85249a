"""Variance inside strata after micro-perturbation: noise of one covariance of the table, or of one a stratum.

    python -m tests.benchmarks.noise_scope [--draws 200]

Three strata of 400, 1,200 and 2,400 records whose deviations are 0.5, 1 and
1.6; groups of five by MDAV. Printed is the trace of the released covariance
over that of the original, the mean of all draws with its standard error.
"""

from __future__ import annotations

import argparse

import numpy as np

from anonpipe.kernels.points import sort_groups
from anonpipe.methods.grouping import cluster
from anonpipe.methods.synthesis import synthesize
from anonpipe.moments import GroupedMoments, Moments, merge_all, noise_factor, s_delta

STRATA = ((400, 0.5), (1_200, 1.0), (2_400, 1.6))


def main() -> None:
    """Print a line a form and scope."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    draws, rng = parser.parse_args().draws, np.random.default_rng(1)
    tables = [sd * rng.normal(size=(n, 5)) @ (np.eye(5) + 0.3) + at for at, (n, sd) in enumerate(STRATA)]
    groups = [sort_groups(cluster(features, 5, "mdav", rng=rng)) for features in tables]
    counted = [GroupedMoments.of(features, *each) for features, each in zip(tables, groups, strict=True)]
    print(f"{'form':<12} {'scope':<8} trace of the release / original, in each stratum")
    for form in ("independent", "centred"):
        for scope, of_noise in (("table", [merge_all(counted)] * len(tables)), ("stratum", counted)):
            ratios = np.empty((draws, len(tables)))
            for draw in range(draws):
                made = np.random.default_rng([draw, 9])
                for at, features in enumerate(tables):
                    options = {"form": form, "factor": noise_factor(s_delta(of_noise[at], form))}
                    new = synthesize(features, *groups[at], "micro_perturbation", rng=made, **options)
                    ratios[draw, at] = np.trace(Moments.of(new).covariance) / np.trace(counted[at].total.covariance)
            shown = "  ".join(
                f"{mean:.4f} ± {error:.4f}"
                for mean, error in zip(ratios.mean(axis=0), ratios.std(axis=0) / np.sqrt(draws), strict=True)
            )
            print(f"{form:<12} {scope:<8} {shown}")


if __name__ == "__main__":
    main()
