# %% [markdown]
# # A Q-function from logged episodes
#
# An agent that chooses at random plays a few tasks of the text shop several times. From what it logged a small
# network learns what each action is worth, and then chooses among the same candidates. It takes some ten seconds
# on a laptop's CPU; nothing is downloaded.

# %%
import asyncio
import tempfile
from typing import Any

import bestofq as bq
from bestofq.agents.scorers.learned import QScorer
from bestofq.config.models import Models
from bestofq.config.settings import BestOfQSettings
from bestofq.learning.config import IQLConfig, NetworkConfig
from bestofq.learning.iql import train_iql
from bestofq.learning.value import ValueModel
from bestofq.recipes.q_training import transitions_of
from bestofq.reports.figures import values_svg
from bestofq.testing import ScriptedProposer

# %% [markdown]
# ## What can be done on a page
#
# The candidates come from a script here, so that the notebook is quick; a language model proposes them in the
# same way (`bq.SamplingProposer`). On a list it offers the first four products, on a product's page to buy and
# each option.


# %%
def propose(state: bq.State, n: int) -> list[str]:
    elements = state.observation.elements
    on_page = [e for e in elements if e.name.startswith(("$", "Buy Now")) or (e.role == "radio" and not e.states)]
    commands = [f"click [{element.mark}]" for element in on_page[:n]]
    return commands if commands else [f'write [1] "{state.task.goal}" enter']


proposer = ScriptedProposer(propose)
suite = bq.load_suite("webshop")
folder = tempfile.TemporaryDirectory()
store = bq.Store.open(folder.name)

# %% [markdown]
# ## Log episodes of an agent that explores


# %%
def play(agent: bq.Agent, run: str, repeats: int) -> list[Any]:
    """The same 10 training tasks, each `repeats` times; kept in the store."""
    return asyncio.run(bq.play(agent, suite, store, split="train", tasks=10, repeats=repeats, run=run))


explorer = bq.Agent(name="explore", proposer=proposer, selector=bq.UniformSelector(), n_candidates=5)
explored = play(explorer, "seed", repeats=10)
print(f"{len(explored)} episodes, {sum(one.success for one in explored)} of them successes")

# %% [markdown]
# ## Learn Q and V from them
#
# Each page, goal and action is embedded once by the frozen model that ships; two small networks then learn by IQL
# (Best-of-Q, 3.2): V(s) leans to the better actions that were seen in s, and Q(s, a) to the reward plus the
# discounted V of the next page.

# %%
models = Models(BestOfQSettings.model_validate({"model": {"embed": {"matches": True}}}))
data = transitions_of(models, store.episodes(run="seed"), store)
config = IQLConfig(
    steps=500, batch_size=64, lr_q=1e-3, lr_v=1e-3, network=NetworkConfig(scaling="whiten", hidden=(64, 32))
)
losses: list[float] = []
iql = train_iql(data, config, log=lambda step, means: losses.append(means["q_loss"]))
values = ValueModel(iql.q, iql.v, embed=models.embedder.spec, train_n=5)
print(f"{len(data)} transitions; loss of Q {losses[0]:.3f} → {losses[-1]:.3f}")

# %% [markdown]
# ## Let Q choose
#
# The proposer is the same, and so are the tasks; only who chooses differs.

# %%
by_q = bq.Agent(
    name="best-of-q", proposer=proposer, scorer=QScorer(values, models.embedder, models.texts), n_candidates=5
)
first = play(bq.Agent(name="first candidate", proposer=proposer, n_candidates=5), "first", repeats=1)
chosen = play(by_q, "q", repeats=1)
for name, episodes in (("at random", explored), ("the first candidate", first), ("by Q", chosen)):
    print(f"{name:20} {sum(one.success for one in episodes) / len(episodes):.0%} success")

# %% [markdown]
# ## What Q thinks while it plays
#
# An episode that succeeded: the line is Q of what was taken, dots are the other candidates, dashes are V (as in
# Best-of-Q, Fig. 12).


# %%
class Picture(str):
    """Text that a notebook shows as a drawing."""

    def _repr_svg_(self) -> str:
        return str(self)


won = [one.id for one in chosen if one.success]
Picture(values_svg(store.episode(max(won, key=lambda id: len(store.episode(id).steps)))))

# %%
store.close()
folder.cleanup()

# %% [markdown]
# From here: [train on your own logs](../how-to/import-logs.md), [is it worth it?](../how-to/is-it-worth-it.md),
# or the whole recipe with a model that proposes, `bestofq improve`.
