"""Other tools' synthetic tables, and the baselines: tables that nobody has touched.

Runs in the judges' environment.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks.frontier.cart import sequential_cart
from tests.benchmarks.frontier.comparable import Kinds, plain

Maker = Callable[[pd.DataFrame, Kinds, int], pd.DataFrame]


def gaussian_copula(original: pd.DataFrame, kinds: Kinds, draw: int) -> pd.DataFrame:
    """SDV's, as it comes."""
    from sdv.metadata import Metadata
    from sdv.single_table import GaussianCopulaSynthesizer

    sdtypes = {
        name: {"sdtype": "categorical" if kind == "categorical" else "numerical"} for name, kind in kinds.items()
    }
    metadata = Metadata.load_from_dict({"tables": {"table": {"columns": sdtypes}}})
    model = GaussianCopulaSynthesizer(metadata)
    model.fit({"table": original})
    model._set_random_state(draw)
    return model.sample(len(original))["table"]


def cart(original: pd.DataFrame, kinds: Kinds, draw: int) -> pd.DataFrame:
    return sequential_cart(original, kinds, np.random.default_rng(draw))


PEERS: dict[str, Maker] = {"sequential CART": cart, "SDV Gaussian copula": gaussian_copula}


def make_peers(folder: Path, kinds: Kinds, draws: int) -> None:
    """Write the releases of all peers that are not there yet."""
    original = plain(pd.read_parquet(folder / "original.parquet"), kinds)
    for name, maker in PEERS.items():
        for draw in range(draws):
            told = folder / "releases" / f"{name}, {draw}.json".replace(" ", "_")
            if told.exists():
                continue
            began = time.perf_counter()
            about: dict[str, Any] = {"who": "peer", "method": name, "k": None, "draw": draw, "refused": False}
            try:
                maker(original, kinds, draw).to_parquet(told.with_suffix(".parquet"))
                about["released"] = f"releases/{told.stem}.parquet"
            except Exception as error:  # a peer that cannot: it is told, and the others go on
                about["problem"] = f"{type(error).__name__}: {error}"[:300]
            about["seconds"] = round(time.perf_counter() - began, 1)
            told.write_text(json.dumps(about))


def make_baselines(folder: Path, draws: int) -> None:
    """Write halves of the original, one taken for the release of the other, and another sample: halves of the control.

    Of the control, one half is the release and the other is the control of the attacks.
    """
    original, control = (pd.read_parquet(folder / f"{name}.parquet") for name in ("original", "control"))
    for draw in range(draws):
        rng = np.random.default_rng((7, draw))
        for name, whole, keys in (
            ("two halves of the original", original, ("original", "released")),
            ("another sample", control, ("control", "released")),
        ):
            told = folder / "releases" / f"{name}, {draw}.json".replace(" ", "_")
            order = rng.permutation(len(whole))
            if told.exists():
                continue
            about: dict[str, Any] = {"who": "baseline", "method": name, "k": None, "draw": draw, "refused": False}
            for key, rows in zip(keys, np.array_split(order, 2), strict=True):
                about[key] = f"releases/{told.stem}_{key}.parquet"
                whole.iloc[rows].to_parquet(folder / about[key])
            told.write_text(json.dumps(about))
