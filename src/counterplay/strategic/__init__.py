"""Agents who game a classifier: what it costs you, and what to deploy instead.

A lender, school or platform publishes a yes/no rule; every applicant may move to get a yes. For a
model you have, say what people can change (:class:`Moves` of :class:`Change` and :class:`Switch`,
tied by :class:`Derived`, :class:`NotAbove` and :class:`OneHot`); :func:`cheapest_moves` says what
acceptance costs each of them, :func:`gaming_report` how much is lost when they game it,
:func:`rethreshold` and :class:`StrategicLinearClassifier` what to deploy instead, and
:func:`estimate_ability` what people can spend, from before and after. Where people take named
actions (:class:`ManipulationGraph`), :class:`StrategicERM` fits the rule that is best after they
have moved. To pick a rule of a catalogue by deploying, :func:`play` :class:`StrategicHalving` if
you see :class:`Applicants` first (at most log2 n mistakes), :class:`MWMR` if afterwards;
:func:`value_of_information` says what seeing more is worth. Other learners, adversaries and exact
solvers are in :mod:`~counterplay.strategic.lab`.
"""

from counterplay.core.play import play
from counterplay.strategic import bounds, instances, lab
from counterplay.strategic.ability import Ability, estimate_ability
from counterplay.strategic.agents import Agents
from counterplay.strategic.applicants import Applicants, ApplicantStream
from counterplay.strategic.changes import Change, Switch
from counterplay.strategic.cheapest import cheapest_moves
from counterplay.strategic.estimator_class import EstimatorClass
from counterplay.strategic.gaming import gaming_report
from counterplay.strategic.graphs.graph_game import GraphApplicants
from counterplay.strategic.graphs.manipulation_graph import Action, ManipulationGraph
from counterplay.strategic.graphs.response import strategic_accuracy
from counterplay.strategic.graphs.strategic_erm import StrategicERM
from counterplay.strategic.halving import StrategicHalving
from counterplay.strategic.linear_class import LinearClass
from counterplay.strategic.linear_classifier import StrategicLinearClassifier
from counterplay.strategic.links import Derived, NotAbove, OneHot
from counterplay.strategic.moves import Moves
from counterplay.strategic.mwmr import MWMR
from counterplay.strategic.rethreshold import rethreshold
from counterplay.strategic.value_of_information import value_of_information

__all__ = [
    "MWMR",
    "Ability",
    "Action",
    "Agents",
    "ApplicantStream",
    "Applicants",
    "Change",
    "Derived",
    "EstimatorClass",
    "GraphApplicants",
    "LinearClass",
    "ManipulationGraph",
    "Moves",
    "NotAbove",
    "OneHot",
    "StrategicERM",
    "StrategicHalving",
    "StrategicLinearClassifier",
    "Switch",
    "bounds",
    "cheapest_moves",
    "estimate_ability",
    "gaming_report",
    "instances",
    "lab",
    "play",
    "rethreshold",
    "strategic_accuracy",
    "value_of_information",
]
