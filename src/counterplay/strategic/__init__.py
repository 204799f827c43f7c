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
from counterplay.strategic.halving import MajorityHalving, StrategicHalving
from counterplay.strategic.learner import Marginals, VersionSpaceLearner
from counterplay.strategic.linear_class import LinearClass
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

# Known and unknown manipulation graphs (infinite classes).
from counterplay.strategic.graphs.manipulation_graph import Action, LocalGraph, ManipulationGraph
from counterplay.strategic.graphs.response import (
    induced_predictions,
    is_realizable,
    respond,
    stackelberg_regret,
    strategic_accuracy,
)
from counterplay.strategic.graphs.strategic_erm import StrategicERM, finite_erm
from counterplay.strategic.linear_classifier import StrategicLinearClassifier

__all__ = [
    "MWMR",
    "Agents",
    "AllNegative",
    "ApplicantStream",
    "Applicants",
    "BlindElimination",
    "BoxClass",
    "ConfidenceBoost",
    "DeltaOnlyElimination",
    "DistanceTableClass",
    "EmpiricalPopulation",
    "Environment",
    "EstimatorClass",
    "Feedback",
    "FiniteMetricClass",
    "GamingReport",
    "GraphMetric",
    "GraphMetricClass",
    "HypothesisClass",
    "Learner",
    "LinearClass",
    "LongestSurvivor",
    "MajorityHalving",
    "Marginals",
    "MedianMapPredictor",
    "Metric",
    "Mixture",
    "NonStrategicERM",
    "NormMetric",
    "OracleERM",
    "PermutationMetric",
    "PermutationMetricClass",
    "Population",
    "PositiveSet",
    "Predictor",
    "ProperUnionSampling",
    "QuantileProbe",
    "Reach",
    "Reaction",
    "RuleSetClass",
    "SamplePlan",
    "SequentialElimination",
    "Setting",
    "StrategicHalving",
    "StrategicHalvingClassifier",
    "StrategicTranscript",
    "TableMetric",
    "TabulatedClass",
    "ThresholdClass",
    "UnionPredictor",
    "UnionSamplingClassifier",
    "UnionSamplingLearner",
    "ValueOfInformation",
    "VersionSpaceLearner",
    "acceptance_distance",
    "bounds",
    "distinct_members",
    "exact_mistake_bound",
    "fit_threshold",
    "gaming_report",
    "instances",
    "loss_table",
    "make_conservative",
    "mistake_filter",
    "play",
    "realizable_mask",
    "rethreshold",
    "run_protocol",
    "safe_filter",
    "safe_set_filter",
    "simulate",
    "value_of_information",
    "worst_case_mistakes",
    "Action",
    "LocalGraph",
    "ManipulationGraph",
    "StrategicERM",
    "StrategicLinearClassifier",
    "finite_erm",
    "induced_predictions",
    "is_realizable",
    "respond",
    "stackelberg_regret",
    "strategic_accuracy",
]
