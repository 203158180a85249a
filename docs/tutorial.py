# %% [markdown]
# # Tutorial: a table in memory
#
# Ten minutes with simulated patients, in Python alone. This page is `docs/tutorial.py`: open it as a notebook
# (VS Code, or Jupyter with jupytext), or run it whole. Nothing here is published; releases are made by `anonpipe run`.

# %%
import tempfile
from pathlib import Path

import pandas as pd

from anonpipe import anonymize
from anonpipe.propose.demo import write_registry

folder = Path(tempfile.mkdtemp())
write_registry(folder / "registry.parquet", rows=2000)
left_out = ["tumour_size_mm", "treatment", "smoker", "region"]
patients = pd.read_parquet(folder / "registry.parquet").drop(columns=left_out)
patients.head()

# %% [markdown]
# ## Say what each column is
#
# Kind and bounds come from the code book, not from the data: the smallest and largest value of a column are somebody's.
# A *role* says what may happen to it. `vital_status` is to come out unchanged; it is a key variable then, and
# its combinations are held against *k*.

# %%
job = {
    "k": 5,
    "columns": {
        "patient_id": {"role": "identifier"},
        "age": {"kind": "integer", "bounds": [18, 100]},
        "sex": {"kind": "binary"},
        "stage": {"kind": "categorical"},
        "site": {"kind": "categorical"},
        "diagnosis_date": {"kind": "date", "bounds": ["2000-01-01", "2019-12-31"]},
        "follow_up_months": {"kind": "continuous", "role": "survival_time", "bounds": [0.1, 252.0], "step": 0.1},
        "vital_status": {"kind": "binary", "role": "survival_status", "event": ["Dead"]},
    },
    "strata": {"by": ["vital_status"]},
    "measure": {"hold_out": 0.1, "utility": False},  # utility takes some seconds more
}
result = anonymize(patients, job)
assert result.passed, result.remedies

# %% [markdown]
# ## Look at what came out
#
# In a notebook `result` shows itself. About a tenth of the rows was held out: membership attacks need
# persons who are not in the release.

# %%
released = result.table
print(f"{len(released):,} of {len(patients):,} rows; columns:", *released.columns)
released.head()

# %%
ages = {"original": patients.groupby("site").age.mean(), "released": released.groupby("site").age.mean()}
pd.DataFrame(ages).round(1)

# %% [markdown]
# ## What would an intruder get?
#
# `value` is what the attack reached, `baseline` what it reaches without the release or by chance; low and high are
# the ends of a 95 % interval. Measures of utility stand in the same table where they are asked for.

# %%
measures = result.measures
measures.loc[["reidentification_rate", "membership_auc"], ["title", "value", "low", "high", "baseline"]]

# %% [markdown]
# ## Set a limit
#
# A figure without a limit stops nothing. With one, a table that does not keep it is not handed back; the remedies
# say what can be done.

# %%
strict = anonymize(patients, job | {"gates": {"reidentification_rate": 0.0001}})
assert not strict.passed and strict.table is None
print(*strict.remedies, sep="\n")

# %% [markdown]
# ## Then what?
#
# Put the job into a file and let `anonpipe plan`, `anonpipe compare` and `anonpipe run` do the same on tables of
# any size: [your own data](your-own-data.md).
