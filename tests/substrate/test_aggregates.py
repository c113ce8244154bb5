"""Facts about DataFusion's aggregates that plans rely on."""

import numpy as np
import pyarrow as pa
import pytest
from datafusion import SessionConfig, SessionContext


@pytest.mark.parametrize("partitions", [1, 4])
def test_lists_gathered_side_by_side_have_their_rows_in_the_same_places(partitions: int) -> None:
    context = SessionContext(SessionConfig().with_batch_size(64).with_target_partitions(partitions))
    numbers = np.random.default_rng(1).permutation(5000)
    batches = [pa.record_batch([pa.array(numbers[at : at + 100])], names=["a"]) for at in range(0, 5000, 100)]
    context.register_record_batches("rows", [batches[:25], batches[25:]])
    derived = "select a, a * 2 as b, -a as c from rows where a % 3 <> 0"
    text = f"with r as ({derived}) select array_agg(a), array_agg(b), array_agg(c) from r"
    (batch,) = context.sql(text).collect()
    a, b, c = (column.flatten().to_numpy() for column in batch.columns)
    assert len(a) == np.count_nonzero(numbers % 3)
    assert (a * 2).tolist() == b.tolist()
    assert (-a).tolist() == c.tolist()


def test_a_list_of_no_rows_is_null() -> None:
    context = SessionContext()
    context.register_record_batches("rows", [[pa.record_batch([pa.array([1, 2])], names=["a"])]])
    (batch,) = context.sql("select array_agg(a) from rows where a > 5").collect()
    assert batch.column(0).null_count == 1
