"""The shop as an environment of TRL's GRPOTrainer: a model that calls tools learns to shop, with the site's own reward.

    pip install 'bestofq[trl]'
    .venv/bin/python examples/train_with_trl.py Qwen/Qwen2.5-1.5B-Instruct

trains a model on 200 tasks. Without a model it plays one task by hand, as TRL would; that takes a second.
"""

import sys

from trainers.site_tools import site_tools

import bestofq as bq

Shop = site_tools(bq.load_suite("webshop"))  # or "booking", "quirks"


def train(model: str) -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    trainer = GRPOTrainer(
        model,
        args=GRPOConfig(output_dir="runs/grpo", num_generations=8, max_completion_length=4096),
        train_dataset=Dataset.from_list(Shop.rows("train", 200)),
        environment_factory=Shop,
    )
    trainer.train()


def play() -> None:
    shop, row = Shop(), Shop.rows("dev", 1)[0]
    first = shop.reset(**row)
    print(row["prompt"][0]["content"] + first)
    goal = first.partition("goal: ")[2].partition("\n")[0]
    print(shop.write(mark=1, text=goal, enter=True))
    print(shop.click(mark=2))  # the first product that was found
    print(shop.answer(text="I bought nothing."), "Reward:", shop.get_reward())


if len(sys.argv) == 2:
    train(sys.argv[1])
else:
    play()
