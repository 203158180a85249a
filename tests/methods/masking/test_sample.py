import numpy as np
import pytest

from anonpipe.methods.masking._draws import DrawnSample


@pytest.mark.parametrize("size", [1, 40, 400, 1_000])
def test_the_sample_is_of_the_smallest_keys_of_all_records(size):
    scores, parts, taken, whole = np.arange(400.0)[:, None], [7, 0, 293, 100], [], None
    for place, part in enumerate(np.split(scores, np.cumsum(parts)[:-1])):
        taken.append(np.random.default_rng(place).integers(2**62, size=len(part)))
        codes = np.arange(len(part))[:, None]
        found = DrawnSample.of(part, codes, size, len(scores), np.random.default_rng(place))
        whole = found if whole is None else whole.merge(found)
    order = np.argsort(np.concatenate(taken))[:size]
    assert whole.scores[:, 0].tolist() == scores[order, 0].tolist()
    assert whole.codes[:, 0].tolist() == np.concatenate([np.arange(n) for n in parts])[order].tolist()
    assert whole.first(5).keys.tolist() == whole.keys[:5].tolist()


def test_parts_of_a_large_table_hand_on_few_records():
    rng = np.random.default_rng(0)
    part = DrawnSample.of(np.zeros((10_000, 1)), np.zeros((10_000, 0), dtype=np.int64), 100, 1_000_000, rng)
    assert len(part.keys) <= 20
