"""What a language model is tuned by: reinforced fine-tuning, and direct preference optimization of composite actions
against likelihoods stored when the actions were drawn (Agent Q, Eqs. 4 to 6)."""

from torch import Tensor
from torch.nn import functional


def rft_loss(log_prob: Tensor) -> Tensor:
    """Loss of each turn [...], Agent Q Eq. 4 (3.2.1): -log π_θ(a|h), from log-likelihoods of whole composite actions of
    successful trajectories. Every token of a reply is learned alike (3.1), none of its prompt."""
    return -log_prob


def implicit_reward(log_prob: Tensor, reference: Tensor, *, beta: float) -> Tensor:
    """r(h, a) = β·log[π_θ(a|h) / π_ref(a|h)] [...], in nats. `reference`: the likelihood under the policy that drew the
    action, kept with it, so that no reference model is in memory (Agent Q, 3.2.2)."""
    return beta * (log_prob - reference)


def step_dpo_loss(chosen: Tensor, rejected: Tensor, ref_chosen: Tensor, ref_rejected: Tensor, *, beta: float) -> Tensor:
    """Loss of each pair [P], Agent Q Eq. 5 (3.2.2), at the level of a node (5.2):

        -log σ( β·log[π_θ(a_w|h) / π_ref(a_w|h)] - β·log[π_θ(a_l|h) / π_ref(a_l|h)] )

    Arguments are log-likelihoods [P] of whole composite actions, the sum over ALL their tokens (3.1, Eq. 1: plan,
    thought, command and explanation weigh alike).

    Deviations. Eq. 5 has a history for each member, h_w and h_l; at a node they are one, h. π_ref is the policy that
    drew the action, which in Algorithm 1 is the one each iteration begins with; pairs of older iterations keep theirs.
    """
    rewards = implicit_reward(chosen, ref_chosen, beta=beta) - implicit_reward(rejected, ref_rejected, beta=beta)
    return -functional.logsigmoid(rewards)


def trajectory_dpo_loss(
    chosen: Tensor,
    rejected: Tensor,
    ref_chosen: Tensor,
    ref_rejected: Tensor,
    chosen_pair: Tensor,
    rejected_pair: Tensor,
    *,
    pairs: int,
    beta: float,
) -> Tensor:
    """Loss of each pair of trajectories [P = `pairs`], Agent Q Eq. 6 (3.2.2):

        -log σ( Σ_t β·log[π_θ(a_t^w|h_t^w) / π_ref(a_t^w|h_t^w)] - Σ_t β·log[π_θ(a_t^l|h_t^l) / π_ref(a_t^l|h_t^l)] )

    `chosen`, `ref_chosen` [T_w] and `rejected`, `ref_rejected` [T_l] are log-likelihoods of turns, laid end to end;
    `chosen_pair` [T_w] and `rejected_pair` [T_l] int64 say to which pair each turn belongs. With one turn a side it
    is Eq. 5. No deviation: turns are not averaged, so long trajectories weigh more.
    """

    def sum_by_pair(turns: Tensor, pair: Tensor) -> Tensor:
        return turns.new_zeros(pairs).index_add(0, pair, turns)

    return step_dpo_loss(
        sum_by_pair(chosen, chosen_pair),
        sum_by_pair(rejected, rejected_pair),
        sum_by_pair(ref_chosen, chosen_pair),
        sum_by_pair(ref_rejected, rejected_pair),
        beta=beta,
    )
