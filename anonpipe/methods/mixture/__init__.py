"""Groups and synthesis by mixtures with bounded weights, over tables in pieces.

`select` chooses a mixture on a sample, `fit` fits it to all pieces, `assign`,
`movable`, `moves` and `relabel` make groups of at least k of it;
`gaussian_mixture` does all this for one table in memory. `group_statistics`,
`draw_statistics`, `affine_maps` and `synthesize_rows` replace groups that span
partitions by records with exactly their moments. `fit_classes` and
`draw_categories` add categorical columns.

scikit-learn's `GaussianMixture` has no bound on weights, no shape "vev" and no
t components; at the same likelihood, to 1e-15, one of its iterations takes 2
to 12 times as long (`tests/benchmarks/mixture_speed.py`).
"""

from anonpipe.methods.mixture._assign import Movable, assign, check_sizes, movable, moves, needs, numbering, relabel
from anonpipe.methods.mixture._classes import (
    ClassConstraints,
    ClassFit,
    ClassStatistics,
    LatentClasses,
    class_constraints,
    class_e_step,
    class_m_step,
    classes_over,
    count_categories,
    draw_categories,
    first_classes,
    fit_classes,
    lifted,
)
from anonpipe.methods.mixture._components import Components, principal_components
from anonpipe.methods.mixture._covariance import covariances
from anonpipe.methods.mixture._estimate import Fit, bic, fit, m_step, over, penalty
from anonpipe.methods.mixture._groups import gaussian_mixture, repaired
from anonpipe.methods.mixture._model import SHAPES, Constraints, Mixture, constraints
from anonpipe.methods.mixture._select import TREE_ROWS, Candidate, Selection, evenly_spaced, on_sample, race, select
from anonpipe.methods.mixture._statistics import Statistics, e_step, hard_statistics
from anonpipe.methods.mixture._synthesis import (
    AffineMaps,
    GroupStatistics,
    affine_maps,
    correcting_maps,
    draw_statistics,
    group_statistics,
    synthesize_rows,
)
from anonpipe.methods.mixture._tree import agglomerate
from anonpipe.methods.mixture._weights import RULES, constrained, smoothed

__all__ = [
    "RULES",
    "SHAPES",
    "TREE_ROWS",
    "AffineMaps",
    "Candidate",
    "ClassConstraints",
    "ClassFit",
    "ClassStatistics",
    "Components",
    "Constraints",
    "Fit",
    "GroupStatistics",
    "LatentClasses",
    "Mixture",
    "Movable",
    "Selection",
    "Statistics",
    "affine_maps",
    "agglomerate",
    "assign",
    "bic",
    "check_sizes",
    "class_constraints",
    "class_e_step",
    "class_m_step",
    "classes_over",
    "constrained",
    "constraints",
    "correcting_maps",
    "count_categories",
    "covariances",
    "draw_categories",
    "draw_statistics",
    "e_step",
    "evenly_spaced",
    "first_classes",
    "fit",
    "fit_classes",
    "gaussian_mixture",
    "group_statistics",
    "hard_statistics",
    "lifted",
    "m_step",
    "movable",
    "moves",
    "needs",
    "numbering",
    "on_sample",
    "over",
    "penalty",
    "principal_components",
    "race",
    "relabel",
    "repaired",
    "select",
    "smoothed",
    "synthesize_rows",
]
