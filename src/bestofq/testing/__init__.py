"""Fakes for tests of your own, at the model's edge alone: environments, stores and endpoints are real.

`FaultServer` is an OpenAI-compatible endpoint on loopback that fails as endpoints do. The scripted ones reply, score
and judge by a function or a list. `serve_app` serves a site of yours on loopback. `bestofq.testing.contracts` checks
what every suite, scorer, proposer and judge promises.
"""

from bestofq.envs.serving import serve_app
from bestofq.testing.fault_server import FaultServer
from bestofq.testing.scripted import ScriptedJudge, ScriptedModel, ScriptedProposer, ScriptedScorer

__all__ = ["FaultServer", "ScriptedJudge", "ScriptedModel", "ScriptedProposer", "ScriptedScorer", "serve_app"]
