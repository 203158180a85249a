import numpy as np

from anonpipe.methods.grouping import class_disclosure, information_loss
from tests.methods.grouping.classed import diabetes, run
from tests.methods.grouping.data import standardized
from tests.naive import classes as naive


def test_spread_alone_is_the_plain_tree_and_fifty_columns_do():
    rng = np.random.default_rng(0)
    features, classes = rng.normal(size=(90, 50)), rng.integers(0, 2, 90)
    assert (run("class_kd_tree", features, 4, classes, alpha=1.0) == run("kd_tree", features, 4)).all()
    assert (run("kd_tree", features, 4) == naive.kd_tree(features, 4)).all()


def test_constant_columns_are_split_in_row_order():
    assert run("kd_tree", np.ones((7, 2)), 3).tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert run("kd_tree", np.ones((5, 2)), 3).tolist() == [0] * 5


def test_diabetes_classes_mix_at_a_price():
    features, classes = diabetes()
    features = standardized(features)
    plain = run("kd_tree", features, 5)
    mixed = run("class_kd_tree", features, 5, classes, alpha=0.1)
    assert class_disclosure(mixed, classes).chi_square < class_disclosure(plain, classes).chi_square
    assert information_loss(features, plain) < information_loss(features, mixed)
