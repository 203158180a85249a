"""A run with events for a lineage service: START, then COMPLETE with the rows, or FAIL with the exit code.

    OPENLINEAGE_URL=http://marquez:5000 python deploy/openlineage_run.py job.yaml

Set ANONPIPE to the command, and the transport as for any OpenLineage client. Events name the job, its input and its
output, and hold no value of the data. Tried with openlineage-python 1.54.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import yaml
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import error_message_run, output_statistics_output_dataset


def main(job_file: str) -> int:
    """Run the job between two events; the exit code is that of the command."""
    content, client = yaml.safe_load(Path(job_file).read_text(encoding="utf-8")), OpenLineageClient()
    source = content["input"]["path"] if isinstance(content["input"], dict) else content["input"]
    facts = {
        "run": Run(str(uuid4())),
        "job": Job("anonpipe", Path(job_file).stem),
        "inputs": [InputDataset("file", source)],
    }
    target = OutputDataset("file", content["output"])
    client.emit(RunEvent(eventTime=_now(), eventType=RunState.START, outputs=[target], **facts))
    command = [os.environ.get("ANONPIPE", "anonpipe"), "run", job_file, "--json", "--resume"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    sys.stderr.write(done.stderr)
    if done.returncode == 0:
        rows = json.loads(done.stdout)["rows"]
        counted = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=rows)
        target = OutputDataset("file", content["output"], outputFacets={"outputStatistics": counted})
    else:
        message = error_message_run.ErrorMessageRunFacet(f"anonpipe ended with exit code {done.returncode}", "python")
        facts["run"] = Run(facts["run"].runId, facets={"errorMessage": message})
    state = RunState.FAIL if done.returncode else RunState.COMPLETE
    client.emit(RunEvent(eventTime=_now(), eventType=state, outputs=[target], **facts))
    return done.returncode


def _now() -> str:
    return datetime.now(UTC).isoformat()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
