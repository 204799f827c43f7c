"""For researchers: all classes of rules, learners, baselines, adversaries' tools, exact solvers.

What the theorems are made of and measured against: catalogues and metrics, learners for every
setting, reductions on manipulation graphs, filters and predictors as objects, what users only
receive (transcripts, reports, fits), and the settings themselves.
"""

from counterplay.core.setting import Setting
from counterplay.strategic.applicants import EmpiricalPopulation, ObliviousGame, Population
from counterplay.strategic.boost import ConfidenceBoost, SamplePlan, UnionSamplingClassifier
from counterplay.strategic.box_classes import BoxClass, RuleSetClass, ThresholdClass
from counterplay.strategic.classes import DistanceTableClass, HypothesisClass
from counterplay.strategic.elimination import DeltaOnlyElimination, SequentialElimination
from counterplay.strategic.erm import FiniteERM
from counterplay.strategic.estimator_class import TabulatedClass
from counterplay.strategic.filters import mistake_filter, safe_filter, safe_set_filter
from counterplay.strategic.finite_classes import FiniteMetricClass, GraphMetric, GraphMetricClass
from counterplay.strategic.game import CatalogueGame, Reaction, StrategicGame
from counterplay.strategic.graphs.baselines import (
    BiasedMajorityVote,
    HedgeOverH,
    StrategyUnawareOnline,
)
from counterplay.strategic.graphs.cover_hedge import AgnosticCoverHedge
from counterplay.strategic.graphs.dashboard import LearnerDashboard
from counterplay.strategic.graphs.finite_learners import SOA, Halving
from counterplay.strategic.graphs.graph_classes import (
    ExplicitGraphClass,
    GraphClass,
    ProductGraphClass,
    graph_loss,
)
from counterplay.strategic.graphs.graph_game import GraphGame
from counterplay.strategic.graphs.littlestone import (
    LittlestoneSolver,
    MistakeTree,
    littlestone_dimension,
)
from counterplay.strategic.graphs.manipulation_graph import LocalGraph
from counterplay.strategic.graphs.moves import UnknownGraphFit, probe, proxy_loss
from counterplay.strategic.graphs.neighborhood import NeighborhoodLearner
from counterplay.strategic.graphs.red2online import Red2OnlineFI, Red2OnlinePMF
from counterplay.strategic.graphs.response import induced_predictions, respond, stackelberg_regret
from counterplay.strategic.graphs.standard_learners import (
    DisjunctionElimination,
    GridThreshold,
    PerceptronLearner,
    SingletonLearner,
    WinnowLearner,
)
from counterplay.strategic.graphs.unknown_online import UnknownGraphOnline
from counterplay.strategic.graphs.unknown_pac import (
    ConsistentGraphOnly,
    SuperGraph,
    UnknownGraphPACAgnostic,
    UnknownGraphPACRealizable,
)
from counterplay.strategic.halving import MajorityHalving
from counterplay.strategic.learner import Marginals, StrategicLearner, VersionSpaceLearner
from counterplay.strategic.metrics import Metric, NormMetric, TableMetric
from counterplay.strategic.mwmr import mwmr_worst_mistakes
from counterplay.strategic.permutation_class import PermutationMetric, PermutationMetricClass
from counterplay.strategic.predictors import (
    AllNegative,
    MedianMapPredictor,
    PositiveSet,
    Predictor,
    UnionPredictor,
)
from counterplay.strategic.quantile_probe import QuantileProbe
from counterplay.strategic.settings import (
    BLIND,
    FEATURES_AFTER,
    FEATURES_AFTER_GRAPH,
    FEATURES_FIRST,
    FEATURES_FIRST_GRAPH,
    REPORT_ONLY,
    REPORT_ONLY_GRAPH,
    Feedback,
    Seen,
)
from counterplay.strategic.solver import minimax_mistakes, worst_case_mistakes
from counterplay.strategic.survivor import LongestSurvivor, make_conservative
from counterplay.strategic.transcript import StrategicTranscript
from counterplay.strategic.union_sampling import ProperUnionSampling, UnionSamplingLearner
from counterplay.strategic.value_of_information import ValueOfInformation

__all__ = [
    "BLIND",
    "FEATURES_AFTER",
    "FEATURES_AFTER_GRAPH",
    "FEATURES_FIRST",
    "FEATURES_FIRST_GRAPH",
    "REPORT_ONLY",
    "REPORT_ONLY_GRAPH",
    "SOA",
    "AgnosticCoverHedge",
    "AllNegative",
    "BiasedMajorityVote",
    "BoxClass",
    "CatalogueGame",
    "ConfidenceBoost",
    "ConsistentGraphOnly",
    "DeltaOnlyElimination",
    "DisjunctionElimination",
    "DistanceTableClass",
    "EmpiricalPopulation",
    "ExplicitGraphClass",
    "Feedback",
    "FiniteERM",
    "FiniteMetricClass",
    "GraphClass",
    "GraphGame",
    "GraphMetric",
    "GraphMetricClass",
    "GridThreshold",
    "Halving",
    "HedgeOverH",
    "HypothesisClass",
    "LearnerDashboard",
    "LittlestoneSolver",
    "LocalGraph",
    "LongestSurvivor",
    "MajorityHalving",
    "Marginals",
    "MedianMapPredictor",
    "Metric",
    "MistakeTree",
    "NeighborhoodLearner",
    "NormMetric",
    "ObliviousGame",
    "PerceptronLearner",
    "PermutationMetric",
    "PermutationMetricClass",
    "Population",
    "PositiveSet",
    "Predictor",
    "ProductGraphClass",
    "ProperUnionSampling",
    "QuantileProbe",
    "Reaction",
    "Red2OnlineFI",
    "Red2OnlinePMF",
    "RuleSetClass",
    "SamplePlan",
    "Seen",
    "SequentialElimination",
    "Setting",
    "SingletonLearner",
    "StrategicGame",
    "StrategicLearner",
    "StrategicTranscript",
    "StrategyUnawareOnline",
    "SuperGraph",
    "TableMetric",
    "TabulatedClass",
    "ThresholdClass",
    "UnionPredictor",
    "UnionSamplingClassifier",
    "UnionSamplingLearner",
    "UnknownGraphFit",
    "UnknownGraphOnline",
    "UnknownGraphPACAgnostic",
    "UnknownGraphPACRealizable",
    "ValueOfInformation",
    "VersionSpaceLearner",
    "WinnowLearner",
    "graph_loss",
    "induced_predictions",
    "littlestone_dimension",
    "make_conservative",
    "minimax_mistakes",
    "mistake_filter",
    "mwmr_worst_mistakes",
    "probe",
    "proxy_loss",
    "respond",
    "safe_filter",
    "safe_set_filter",
    "stackelberg_regret",
    "worst_case_mistakes",
]
