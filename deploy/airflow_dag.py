"""A nightly release under Apache Airflow: one task, whose exit code decides whether it is tried again.

Put this file into Airflow's folder of DAGs, and set ANONPIPE (the command) and ANONPIPE_JOB (a job file) for its
workers. anonpipe may have an environment of its own: only its command is called. Tried with Airflow 3.3.
"""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime, timedelta

from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

# A bad job or input, and a failed gate, are the same tomorrow morning: a person has to look
FINAL = {2: "the job or its input is refused", 3: "a gate failed, nothing was released"}


@dag(schedule="0 2 * * *", start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False, max_active_runs=1)
def anonpipe_release() -> None:
    """Release the table of a job each night."""

    @task(retries=3, retry_delay=timedelta(minutes=10))
    def release() -> dict[str, str | int]:
        """Run the job; a crashed run of it is gone on with. The verdict is in the log, and holds no value."""
        command = [os.environ.get("ANONPIPE", "anonpipe"), "run", os.environ["ANONPIPE_JOB"], "--json", "--resume"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        print(done.stdout, done.stderr)
        if done.returncode in FINAL:
            raise AirflowFailException(FINAL[done.returncode])
        if done.returncode:  # 4: storage, 5: workers, 6: the job is running already
            raise AirflowException(f"anonpipe ended with exit code {done.returncode}; tried again later")
        outcome = json.loads(done.stdout)
        return {"version": outcome["version"], "rows": outcome["rows"], "report": outcome["report"]}

    release()


release_dag = anonpipe_release()

if __name__ == "__main__":
    release_dag.test()
