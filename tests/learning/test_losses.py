import math

import torch

from bestofq.learning.objectives import implicit_reward, rft_loss, step_dpo_loss, trajectory_dpo_loss


def test_equation_5_by_hand() -> None:
    chosen, rejected = torch.tensor([-1.0, -4.0]), torch.tensor([-3.0, -2.0])
    ref_chosen, ref_rejected = torch.tensor([-2.0, -4.0]), torch.tensor([-2.5, -2.0])
    loss = step_dpo_loss(chosen, rejected, ref_chosen, ref_rejected, beta=0.5)
    # 0.5 · (1.0 - -0.5) = 0.75; the second pair is where the reference is: log 2
    torch.testing.assert_close(loss, torch.tensor([math.log1p(math.exp(-0.75)), math.log(2)]))
    torch.testing.assert_close(implicit_reward(chosen, ref_chosen, beta=0.5), torch.tensor([0.5, 0.0]))


def test_its_slope_is_largest_where_the_pair_is_most_wrong() -> None:
    chosen = torch.tensor([-1.0, -9.0], requires_grad=True)
    loss = step_dpo_loss(chosen, torch.tensor([-1.0, -1.0]), torch.zeros(2), torch.zeros(2), beta=0.25)
    loss.sum().backward()
    # -β·σ(-margin), of margins 0 and 0.25 · (-9 - -1) = -2
    torch.testing.assert_close(chosen.grad, torch.tensor([-0.125, -0.25 / (1 + math.exp(-2))]))


def test_equation_6_by_hand() -> None:
    loss = trajectory_dpo_loss(
        torch.tensor([-1.0, -2.0, -3.0]),  # pair 0 has two turns, pair 1 one
        torch.tensor([-2.0, -2.0, -1.0]),  # pair 0 has one turn, pair 1 two
        torch.tensor([-1.5, -3.0, -3.0]),
        torch.tensor([-1.0, -2.5, -1.5]),
        torch.tensor([0, 0, 1]),
        torch.tensor([0, 1, 1]),
        pairs=2,
        beta=0.1,
    )
    # pair 0: 0.1 · ((0.5 + 1.0) - (-1.0)) = 0.25; pair 1: 0.1 · (0 - (0.5 + 0.5)) = -0.1
    torch.testing.assert_close(loss, torch.tensor([math.log1p(math.exp(-0.25)), math.log1p(math.exp(0.1))]))


def test_one_turn_a_side_is_equation_5() -> None:
    sides = torch.randn((4, 6), generator=torch.Generator().manual_seed(0))
    own = torch.arange(6)
    of_turns = trajectory_dpo_loss(*sides, own, own, pairs=6, beta=0.3)
    torch.testing.assert_close(of_turns, step_dpo_loss(*sides, beta=0.3))


def test_theorem_1_the_minimiser_of_equation_5_is_the_optimal_policy() -> None:
    """Preferences drawn as σ(Q(h, a_w) - Q(h, a_l)), in exact expectation over all pairs of three nodes' actions."""
    generator = torch.Generator().manual_seed(0)
    nodes, actions, beta = 3, 5, 0.4
    q = torch.rand((nodes, actions), generator=generator, dtype=torch.float64)
    reference = torch.randn((nodes, actions), generator=generator, dtype=torch.float64).log_softmax(-1)
    first, second = torch.cartesian_prod(torch.arange(actions), torch.arange(actions)).unbind(1)
    preferred = (q[:, first] - q[:, second]).sigmoid()  # [nodes, pairs]
    logits = torch.zeros((nodes, actions), dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS(
        [logits], max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-15, line_search_fn="strong_wolfe"
    )

    def expected_loss() -> torch.Tensor:
        solver.zero_grad()
        policy = logits.log_softmax(-1)
        losses = step_dpo_loss(
            policy[:, first], policy[:, second], reference[:, first], reference[:, second], beta=beta
        )
        loss = (preferred * losses).sum()
        loss.backward()
        return loss

    solver.step(expected_loss)
    optimal = (reference + q / beta).softmax(-1)  # Eq. 9
    torch.testing.assert_close(logits.detach().softmax(-1), optimal, rtol=0, atol=1e-4)
    assert float((optimal - reference.exp()).abs().max()) > 0.1  # it had to be learned


def test_equation_4_by_hand() -> None:
    torch.testing.assert_close(rft_loss(torch.tensor([-1.5, -0.25])), torch.tensor([1.5, 0.25]))
