"""Contract cases of the decision processes in counterplay.elicitation."""

import math
from typing import Any

import networkx as nx
import numpy as np

from counterplay.elicitation import MultiObjectiveMDP, expand_and_compress, instances, plan
from counterplay.elicitation.lab import (
    MDPOracle,
    PolicyMixture,
    enumerate_support,
    policy_flow,
    policy_value,
    sampled_trajectory_set,
)

MDP = instances.random_mdp(0, n_states=5, k=3, horizon=3)
from_environment = MultiObjectiveMDP.from_gymnasium
from_roads = MultiObjectiveMDP.from_road_graph
POLICY = plan(MDP, [[1.0, 0.5, 0.2]]).policies[0]


class Corridor:
    """A small deterministic environment."""

    action_space = type("Discrete", (), {"n": 2})

    def reset(self, seed: int | None = None) -> tuple[int, dict[str, Any]]:
        self.cell = 0
        return self.cell, {}

    def step(self, action: int) -> tuple[int, list[float], bool, bool, dict[str, Any]]:
        self.cell += 1 if action else 0
        return self.cell, [float(self.cell == 3), -1.0], self.cell == 3, False, {}


def roads() -> nx.MultiDiGraph:
    graph = nx.MultiDiGraph()
    graph.add_edge("home", "work", time=20.0, scenery=0.1, congestion=0.1, delay=60.0)
    graph.add_edge("home", "lake", time=25.0, scenery=1.0)
    graph.add_edge("lake", "work", time=15.0, scenery=0.8)
    return graph


PROCESS_CASES: dict[str, dict[str, Any]] = {
    "MDPOracle": {
        "make": lambda: MDPOracle(MDP),
        "run": lambda oracle: oracle.argmax(np.eye(3))[1],
        "bad": {
            "no do-nothing": lambda: MDPOracle(MultiObjectiveMDP(np.ones((1, 1, 1)), [[[1.0]]])),
            "wrong width": lambda: MDPOracle(MDP).argmax([[1.0]]),
        },
    },
    "MultiObjectiveMDP": {
        "make": lambda: instances.random_mdp(0, n_states=4, k=2, horizon=3),
        "bad": {
            "row sum": lambda: MultiObjectiveMDP(np.full((1, 1, 1), 0.9), [[[1.0]]]),
            "NaN reward": lambda: MultiObjectiveMDP(np.ones((1, 1, 1)), [[[math.nan]]]),
            "H = 0": lambda: MultiObjectiveMDP(np.ones((1, 1, 1)), [[[1.0]]], H=0),
            "reward above one": lambda: MultiObjectiveMDP(np.ones((1, 1, 1)), [[[2.0]]]),
            "horizon": lambda: from_environment(Corridor(), 0, costs=[1]),
            "penalty not listed": lambda: from_environment(Corridor(), 4),
            "too many states": lambda: from_environment(Corridor(), 4, costs=[1], max_states=2),
            "no environment": lambda: from_environment(3, 4),
            "node": lambda: from_roads(roads(), "home", "moon", 3, objectives=["time"]),
            "no way": lambda: from_roads(roads(), "work", "home", 3, objectives=["time"]),
            "cost": lambda: from_roads(
                roads(), "home", "work", 3, objectives=["time"], costs=["noise"]
            ),
        },
    },
    "PolicyMixture": {
        "make": lambda: PolicyMixture([0.5, 0.5], [POLICY, POLICY]),
        "bad": {"weights": lambda: PolicyMixture([0.5, 0.6], [POLICY, POLICY])},
    },
    "WeightedTrajectorySet": {"make": lambda: expand_and_compress(MDP, POLICY)},
    "add_do_nothing": {"args": lambda: {"mdp": MultiObjectiveMDP(np.ones((1, 1, 1)), [[[1.0]]])}},
    "enumerate_support": {
        "args": {"mdp": MDP, "policy": POLICY},
        "bad": {"too many": lambda: enumerate_support(MDP, POLICY, limit=3)},
    },
    "sampled_trajectory_set": {
        "args": {"mdp": MDP, "policy": POLICY, "n": 20, "random_state": 0},
        "bad": {"n = 0": lambda: sampled_trajectory_set(MDP, POLICY, 0)},
    },
    "do_nothing_policy": {"args": {"mdp": MDP}},
    "expand_and_compress": {
        "args": {"mdp": MDP, "policy": POLICY},
        "bad": {
            "shape": lambda: expand_and_compress(MDP, np.zeros((2, 2), dtype=int)),
            "action": lambda: expand_and_compress(MDP, np.full(MDP.n_states, 4)),
        },
    },
    "flow_decomposition": {"args": lambda: {"flow": policy_flow(MDP, POLICY)}},
    "instances.ValueInstance": {"make": lambda: instances.thin_direction(0.1)},
    "instances.bandit": {"args": {"values": [[1.0, 0.2], [0.1, 0.9]]}},
    "instances.city": {
        "args": {"rows": 3, "columns": 4, "random_state": 0},
        "bad": {"rows = 0": lambda: instances.city(0, 4)},
        "mutable": "a networkx graph, for the caller to change",
    },
    "instances.compression_inputs": {"args": {"seed": 0}, "mutable": "a dict of inputs to try"},
    "instances.epsilon_toy": {"args": {"eta": 0.1}},
    "instances.fibonacci": {"args": {"d": 5}, "bad": {"d = 2": lambda: instances.fibonacci(2)}},
    "instances.good_bad_mediocre": {"args": {}},
    "instances.harvest_tree": {
        "args": {"depth": 3, "k": 2, "slip": 0.1, "seed": 0},
        "bad": {"depth": lambda: instances.harvest_tree(depth=0)},
    },
    "instances.linear_dependence": {"args": {}},
    "instances.near_indistinguishable": {"args": {"eps": 0.01}},
    "instances.random_mdp": {"args": {"seed": 0}},
    "instances.rare_crash": {"args": {"crash_probability": 1e-6, "seed": 0}},
    "instances.sparse_mdp": {"args": {"seed": 0, "n_states": 20, "horizon": 3, "successors": 3}},
    "instances.stationarity": {"args": {}},
    "instances.thin_direction": {
        "args": {"eta": 0.1},
        "bad": {"eta = 0": lambda: instances.thin_direction(0.0)},
    },
    "instances.truncation_bias": {"args": {"eps": 1e-6}},
    "occupancy": {"args": {"mdp": MDP, "policy": POLICY}},
    "plan": {
        "args": {"mdp": MDP, "W": np.eye(3)},
        "bad": {
            "wrong width": lambda: plan(MDP, [[1.0, 2.0]]),
            "NaN": lambda: plan(MDP, [[math.nan, 1.0, 1.0]]),
        },
    },
    "policy_flow": {"args": {"mdp": MDP, "policy": POLICY}},
    "policy_value": {
        "args": {"mdp": MDP, "policy": POLICY},
        "bad": {"floats": lambda: policy_value(MDP, np.zeros((3, 5, 5)))},
    },
    "value_to_go": {"args": {"mdp": MDP, "policy": POLICY}},
}
