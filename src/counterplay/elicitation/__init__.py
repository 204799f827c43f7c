"""Find the option one person wants, from comparisons alone.

A decision has several objectives and the person's weights are hidden. One may only show two
options and hear "first", "second" or "cannot tell". For people choosing from a catalogue or among
policies, :class:`PolytopeElicitor` keeps every preference that explains the answers and stops with
a certificate: the largest regret over all of them. :class:`PreferenceElicitor` is the guaranteed
procedure of the theory, O(k log(k/eps)) questions in the worst case. Both are sessions: ``ask``,
``tell``, ``result``; :func:`answered_by` lets a simulated user answer. Options can be rows of a
data frame (:class:`Catalogue`), policies of a :class:`MultiObjectiveMDP` (a mo-gymnasium
environment, a road network), or what your own planner finds (:class:`CallableOracle`).
:func:`expand_and_compress` explains any policy by at most k+1 real trajectories whose weighted
return is exactly its value, rare events included.
"""

from counterplay.elicitation import bounds, instances, lab
from counterplay.elicitation.catalogue import Catalogue
from counterplay.elicitation.choice_panel import ChoicePanel
from counterplay.elicitation.comparisons import Answer
from counterplay.elicitation.elicitor import PreferenceElicitor, elicit_many
from counterplay.elicitation.expand_and_compress import expand_and_compress
from counterplay.elicitation.mdp import MultiObjectiveMDP, add_do_nothing
from counterplay.elicitation.oracles import CallableOracle
from counterplay.elicitation.planner import plan
from counterplay.elicitation.polytope_elicitor import PolytopeElicitor
from counterplay.elicitation.reliable_elicitor import ReliableElicitor
from counterplay.elicitation.sessions import answered_by
from counterplay.elicitation.slips import AtMost, Unknown
from counterplay.elicitation.users import LinearPreferenceUser, NoisyUser

__all__ = [
    "Answer",
    "AtMost",
    "CallableOracle",
    "Catalogue",
    "ChoicePanel",
    "LinearPreferenceUser",
    "MultiObjectiveMDP",
    "NoisyUser",
    "PolytopeElicitor",
    "PreferenceElicitor",
    "ReliableElicitor",
    "Unknown",
    "add_do_nothing",
    "answered_by",
    "bounds",
    "elicit_many",
    "expand_and_compress",
    "instances",
    "lab",
    "plan",
]
