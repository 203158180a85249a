"""Other tools' synthetic tables, and the baselines: tables that nobody has touched.

Runs in the judges' environment.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks.frontier.cart import sequential_cart
from tests.benchmarks.frontier.comparable import Kinds, plain, shuffled

Maker = Callable[[pd.DataFrame, Kinds, int], pd.DataFrame]


def gaussian_copula(original: pd.DataFrame, kinds: Kinds, draw: int) -> pd.DataFrame:
    """SDV's, as it comes."""
    return _sdv("GaussianCopulaSynthesizer", original, kinds, draw)


def tvae(original: pd.DataFrame, kinds: Kinds, draw: int) -> pd.DataFrame:
    """SDV's variational autoencoder (Xu et al. 2019), as it comes: 300 epochs."""
    return _deep("TVAESynthesizer", original, kinds, draw)


def ctgan(original: pd.DataFrame, kinds: Kinds, draw: int) -> pd.DataFrame:
    """SDV's generative adversarial network (Xu et al. 2019), as it comes: 300 epochs."""
    return _deep("CTGANSynthesizer", original, kinds, draw)


def _deep(model: str, original: pd.DataFrame, kinds: Kinds, draw: int) -> pd.DataFrame:
    """By torch, whose weights begin at the global random state."""
    import torch

    torch.manual_seed(draw)
    np.random.seed(draw)
    torch.set_num_threads(1)  # small layers: several threads wait for one another on a machine in use
    return _sdv(model, original, kinds, draw, enable_gpu=False)


def _sdv(model: str, original: pd.DataFrame, kinds: Kinds, draw: int, **options: bool) -> pd.DataFrame:
    from sdv import single_table
    from sdv.metadata import Metadata

    sdtypes = {
        name: {"sdtype": "categorical" if kind == "categorical" else "numerical"} for name, kind in kinds.items()
    }
    metadata = Metadata.load_from_dict({"tables": {"table": {"columns": sdtypes}}})
    made = getattr(single_table, model)(metadata, **options)
    made.fit({"table": original})
    made._set_random_state(draw)
    return made.sample(len(original))["table"]


def cart(original: pd.DataFrame, kinds: Kinds, draw: int) -> pd.DataFrame:
    return sequential_cart(original, kinds, np.random.default_rng(draw))


PEERS: dict[str, Maker] = {"sequential CART": cart, "SDV Gaussian copula": gaussian_copula}
DEEP: dict[str, Maker] = {"SDV TVAE": tvae, "SDV CTGAN": ctgan}
"""Where torch is installed (`requirements_deep.txt`)."""


BASELINES = ("two halves of the original", "another sample")


def make_peers(folder: Path, kinds: Kinds, draws: int) -> None:
    """Write the releases of all peers that are not there yet."""
    original = plain(pd.read_parquet(folder / "original.parquet"), kinds)
    deep = DEEP if find_spec("torch") else {}
    for name, maker in (PEERS | deep).items():
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


def make_baselines(folder: Path, draws: int, unit: str | None = None) -> None:
    """Write halves of the original, one taken for the release of the other, and another sample: halves of the control.

    Of the control, one half is the release and the other is the control of the attacks. Units stay whole.
    """
    original, control = (pd.read_parquet(folder / f"{name}.parquet") for name in ("original", "control"))
    for draw in range(draws):
        rng = np.random.default_rng((7, draw))
        for name, whole, keys in (
            (BASELINES[0], original, ("original", "released")),
            (BASELINES[1], control, ("control", "released")),
        ):
            told = folder / "releases" / f"{name}, {draw}.json".replace(" ", "_")
            parts = shuffled(whole, rng, unit)
            if told.exists():
                continue
            about: dict[str, Any] = {"who": "baseline", "method": name, "k": None, "draw": draw, "refused": False}
            middle = -(-len(parts) // 2)
            for key, rows in zip(keys, (parts[:middle], parts[middle:]), strict=True):
                about[key] = f"releases/{told.stem}_{key}.parquet"
                whole.iloc[np.concatenate(rows)].to_parquet(folder / about[key])
            told.write_text(json.dumps(about))
