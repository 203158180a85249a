"""What is measured of a run's release on private samples: utility, risk and the recipients' analyses."""

from anonpipe.pipeline.evaluation._checks import checks, gated, notes
from anonpipe.pipeline.evaluation._counts import row_numbers
from anonpipe.pipeline.evaluation._held import held_in, held_rows, held_sample, keep_held, start_key
from anonpipe.pipeline.evaluation._measure import (
    SampledTables,
    load_assessment,
    measure_piece,
    pieces,
    sampled_tables,
    save_assessment,
)
from anonpipe.pipeline.evaluation._sample import (
    gather_queries,
    has_groups,
    rows_before,
    sample_partition,
    samples,
    spans_partitions,
)
from anonpipe.pipeline.evaluation._search import search_partition
from anonpipe.verify.assessment import AnalysisOutcome, Assessment, NotChecked

__all__ = [
    "AnalysisOutcome",
    "Assessment",
    "NotChecked",
    "SampledTables",
    "checks",
    "gated",
    "gather_queries",
    "has_groups",
    "held_in",
    "held_rows",
    "held_sample",
    "keep_held",
    "load_assessment",
    "measure_piece",
    "notes",
    "pieces",
    "row_numbers",
    "rows_before",
    "sample_partition",
    "sampled_tables",
    "samples",
    "save_assessment",
    "search_partition",
    "spans_partitions",
    "start_key",
]
