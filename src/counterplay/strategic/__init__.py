"""Agents who game a classifier: pick a rule while applicants adapt.

A lender, school or platform publishes a yes/no rule; every applicant may move, within her own
unknown ability, to get a yes. Somewhere in a catalogue of candidate rules is one that is right
about everybody after they have moved. What you see decides what you pay: with the features first,
:class:`StrategicHalving` errs at most log2(n) times; with features seen afterwards, :class:`MWMR`
and :class:`UnionSamplingLearner` still learn fast; with less, every rule must be tried in turn.
Start with a catalogue (:class:`LinearClass` for scorecards), agents (:class:`Agents`) and
:func:`play`. For a model you already have, :func:`gaming_report` says how much accuracy is lost
when people game it, and :func:`rethreshold` what to deploy instead.
"""

from counterplay.strategic import bounds, instances
from counterplay.strategic.agents import Agents, loss_table, realizable_mask
from counterplay.strategic.boost import ConfidenceBoost
from counterplay.strategic.box_classes import BoxClass, RuleSetClass, ThresholdClass
from counterplay.strategic.classes import DistanceTableClass, HypothesisClass
from counterplay.strategic.classifiers import (
    SamplePlan,
    StrategicHalvingClassifier,
    UnionSamplingClassifier,
)
from counterplay.strategic.elimination import (
    BlindElimination,
    DeltaOnlyElimination,
    SequentialElimination,
)
from counterplay.strategic.environments import (
    Applicants,
    ApplicantStream,
    EmpiricalPopulation,
    Population,
)
from counterplay.strategic.erm import NonStrategicERM, OracleERM
from counterplay.strategic.estimator_class import EstimatorClass, TabulatedClass
from counterplay.strategic.filters import mistake_filter, safe_filter, safe_set_filter
from counterplay.strategic.finite_classes import (
    FiniteMetricClass,
    GraphMetric,
    GraphMetricClass,
    distinct_members,
)
from counterplay.strategic.gaming import GamingReport, gaming_report

# Known and unknown manipulation graphs (infinite classes).
from counterplay.strategic.graphs import bounds as graph_bounds
from counterplay.strategic.graphs import instances as graph_instances
from counterplay.strategic.graphs.actions import Action
from counterplay.strategic.graphs.adversary_lab import (
    minimax_mistakes,
    worst_case_mistakes_on_graph,
)
from counterplay.strategic.graphs.baselines import (
    BiasedMajorityVote,
    ConsistentGraphOnly,
    HedgeOverH,
    StrategyUnawareERM,
    StrategyUnawareOnline,
    SuperGraph,
)
from counterplay.strategic.graphs.cover_hedge import AgnosticCoverHedge
from counterplay.strategic.graphs.dashboard import LearnerDashboard
from counterplay.strategic.graphs.environment import (
    GraphGame,
    GraphLearner,
    GraphTranscript,
    Mode,
)
from counterplay.strategic.graphs.experts import RealizabilityError
from counterplay.strategic.graphs.graph_classes import (
    ExplicitGraphClass,
    GraphClass,
    ProductGraphClass,
    graph_loss,
)
from counterplay.strategic.graphs.manipulation_graph import LocalGraph, ManipulationGraph
from counterplay.strategic.graphs.moves import consistent_graph, probe, proxy_graph, proxy_loss
from counterplay.strategic.graphs.neighborhood import NeighborhoodLearner
from counterplay.strategic.graphs.red2online import Red2OnlineFI, Red2OnlinePMF
from counterplay.strategic.graphs.response import (
    induced_predictions,
    is_realizable,
    respond,
    stackelberg_regret,
    strategic_accuracy,
)
from counterplay.strategic.graphs.standard_learners import (
    DisjunctionElimination,
    GridThreshold,
    PerceptronLearner,
    SingletonLearner,
    WinnowLearner,
)
from counterplay.strategic.graphs.strategic_erm import StrategicERM, finite_erm
from counterplay.strategic.graphs.unknown_fit import UnknownGraphFit
from counterplay.strategic.graphs.unknown_online import UnknownGraphOnline
from counterplay.strategic.graphs.unknown_pac import (
    UnknownGraphPACAgnostic,
    UnknownGraphPACRealizable,
)
from counterplay.strategic.halving import MajorityHalving, StrategicHalving
from counterplay.strategic.learner import Marginals, VersionSpaceLearner
from counterplay.strategic.linear_class import LinearClass
from counterplay.strategic.linear_classifier import StrategicLinearClassifier
from counterplay.strategic.metrics import Metric, NormMetric, TableMetric
from counterplay.strategic.mwmr import MWMR, worst_case_mistakes
from counterplay.strategic.permutation_class import PermutationMetric, PermutationMetricClass
from counterplay.strategic.predictors import (
    AllNegative,
    MedianMapPredictor,
    Mixture,
    PositiveSet,
    Predictor,
    UnionPredictor,
)
from counterplay.strategic.protocol import (
    Environment,
    Learner,
    Reaction,
    StrategicTranscript,
    play,
    run_protocol,
)
from counterplay.strategic.quantile_probe import QuantileProbe
from counterplay.strategic.reach import Reach, acceptance_distance
from counterplay.strategic.rethreshold import fit_threshold, rethreshold
from counterplay.strategic.settings import Feedback, Setting
from counterplay.strategic.simulation import simulate
from counterplay.strategic.solver import exact_mistake_bound
from counterplay.strategic.survivor import LongestSurvivor, make_conservative
from counterplay.strategic.union_sampling import ProperUnionSampling, UnionSamplingLearner
from counterplay.strategic.value_of_information import ValueOfInformation, value_of_information

__all__ = [
    "MWMR",
    "Action",
    "Agents",
    "AgnosticCoverHedge",
    "AllNegative",
    "ApplicantStream",
    "Applicants",
    "BiasedMajorityVote",
    "BlindElimination",
    "BoxClass",
    "ConfidenceBoost",
    "ConsistentGraphOnly",
    "DeltaOnlyElimination",
    "DisjunctionElimination",
    "DistanceTableClass",
    "EmpiricalPopulation",
    "Environment",
    "EstimatorClass",
    "ExplicitGraphClass",
    "Feedback",
    "FiniteMetricClass",
    "GamingReport",
    "GraphClass",
    "GraphGame",
    "GraphLearner",
    "GraphMetric",
    "GraphMetricClass",
    "GraphTranscript",
    "GridThreshold",
    "HedgeOverH",
    "HypothesisClass",
    "Learner",
    "LearnerDashboard",
    "LinearClass",
    "LocalGraph",
    "LongestSurvivor",
    "MajorityHalving",
    "ManipulationGraph",
    "Marginals",
    "MedianMapPredictor",
    "Metric",
    "Mixture",
    "Mode",
    "NeighborhoodLearner",
    "NonStrategicERM",
    "NormMetric",
    "OracleERM",
    "PerceptronLearner",
    "PermutationMetric",
    "PermutationMetricClass",
    "Population",
    "PositiveSet",
    "Predictor",
    "ProductGraphClass",
    "ProperUnionSampling",
    "QuantileProbe",
    "Reach",
    "Reaction",
    "RealizabilityError",
    "Red2OnlineFI",
    "Red2OnlinePMF",
    "RuleSetClass",
    "SamplePlan",
    "SequentialElimination",
    "Setting",
    "SingletonLearner",
    "StrategicERM",
    "StrategicHalving",
    "StrategicHalvingClassifier",
    "StrategicLinearClassifier",
    "StrategicTranscript",
    "StrategyUnawareERM",
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
    "acceptance_distance",
    "bounds",
    "consistent_graph",
    "distinct_members",
    "exact_mistake_bound",
    "finite_erm",
    "fit_threshold",
    "gaming_report",
    "graph_bounds",
    "graph_instances",
    "graph_loss",
    "induced_predictions",
    "instances",
    "is_realizable",
    "loss_table",
    "make_conservative",
    "minimax_mistakes",
    "mistake_filter",
    "play",
    "probe",
    "proxy_graph",
    "proxy_loss",
    "realizable_mask",
    "respond",
    "rethreshold",
    "run_protocol",
    "safe_filter",
    "safe_set_filter",
    "simulate",
    "stackelberg_regret",
    "strategic_accuracy",
    "value_of_information",
    "worst_case_mistakes",
    "worst_case_mistakes_on_graph",
]
