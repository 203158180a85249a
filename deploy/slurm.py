"""Workers of a Dask cluster on SLURM, for `run.scheduler`.

    python deploy/slurm.py --jobs 4

Needs dask-jobqueue beside anonpipe, on the machine that submits; TLS from the
environment of deploy/README.md (A Dask cluster of your own). It stays until
Ctrl-C, prints the address for the job, and `--script` prints the batch script only.
"""

from __future__ import annotations

import argparse
import os
import signal

from dask_jobqueue import SLURMCluster


def main() -> None:
    """Start the scheduler here and ask the queue for workers of one thread."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1, help="batch jobs (%(default)s)")
    parser.add_argument("--workers", type=int, default=4, help="workers of a job, each on a core (%(default)s)")
    parser.add_argument("--memory", default="16GiB", help="of a job (%(default)s)")
    parser.add_argument("--walltime", default="08:00:00", help="of a job (%(default)s)")
    parser.add_argument("--queue", help="partition of the cluster")
    parser.add_argument("--account", help="account that is charged")
    parser.add_argument("--interface", help="network interface that the nodes share, such as ib0")
    parser.add_argument("--script", action="store_true", help="print the batch script and stop")
    given = parser.parse_args()
    # Neither secret nor password goes to the nodes; the rest of the environment does.
    kept = ["PATH", "HOME", "USER", *sorted(name for name in os.environ if name.startswith("DASK_"))]
    cluster = SLURMCluster(
        cores=given.workers,
        processes=given.workers,
        memory=given.memory,
        walltime=given.walltime,
        queue=given.queue,
        account=given.account,
        interface=given.interface,
        protocol="tls://",
        local_directory="$TMPDIR",
        # The pages of logs and call stacks ask for no password.
        scheduler_options={"dashboard_address": "127.0.0.1:0"},
        worker_extra_args=["--no-dashboard", "--dashboard-address", "127.0.0.1:0"],
        job_extra_directives=["--export=" + ",".join(kept)],
        job_script_prologue=["umask 077", "export NUMBA_NUM_THREADS=1"],
    )
    if given.script:
        print(cluster.job_script())
        return
    cluster.scale(jobs=given.jobs)
    print(f'run: {{scheduler: "{cluster.scheduler_address}"}}', flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    main()
