from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from anonpipe.job.model import parse_job
from anonpipe.pipeline.cut import Cut, RowPartition, cut_rows, leaf_counts, partition_rows, predicted_peak_bytes
from anonpipe.storage.records import from_bytes, to_bytes

JOB = parse_job({"input": "a", "output": "b", "k": 5, "columns": {"x": {"kind": "continuous"}}})


@given(
    st.lists(st.lists(st.integers(0, 30), min_size=6, max_size=6), min_size=1, max_size=4),
    st.lists(st.integers(0, 1), min_size=6, max_size=6),
)
def test_every_row_is_in_one_partition_in_source_order(chunk_leaf_rows, strata):
    strata = sorted(strata)
    plan = cut_rows(JOB, chunk_leaf_rows, strata)
    assert plan.rows == sum(map(sum, chunk_leaf_rows))
    covered = [sorted(plan.pieces(at)) for at in range(len(plan.partitions))]
    assert covered == [plan.pieces(at) for at in range(len(plan.partitions))]
    seen = {(u, row) for pieces in covered for u, begin, end in pieces for row in range(begin, end)}
    assert len(seen) == plan.rows
    for partition in plan.partitions:
        assert {strata[leaf] for leaf in partition.leaves} == {partition.stratum}
        whole = sum(sum(u[leaf] for u in chunk_leaf_rows) for leaf, s in enumerate(strata) if s == partition.stratum)
        assert partition.rows >= min(JOB.k, whole)
    assert from_bytes(to_bytes(plan), [Cut, RowPartition]) == plan


def test_wide_tables_get_smaller_partitions():
    assert partition_rows(JOB, 10) == JOB.partition.rows
    assert partition_rows(JOB, 1000) < 20_000
    assert leaf_counts([1, 200_000, 200_001], 200_000) == [1, 1, 2]


def test_whole_columns_count_in_the_predicted_memory():
    few, many = (predicted_peak_bytes(200_000, 30, 12, 2, JOB, rows) for rows in (0, 10**8))
    assert many - few > 2 * 8 * 10**8
    assert predicted_peak_bytes(200_000, 30, 12, 2, JOB, 1_000) == few
