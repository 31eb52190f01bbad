"""Real-format files: how each field is read, and a clear sentence for every file that cannot be."""

import json
from pathlib import Path

import pytest

from bestofq.core.errors import DataError, InputError
from bestofq_sites.webshop.products import Option
from bestofq_sites.webshop.settings import WebShopSettings
from bestofq_sites.webshop.source import load_catalogue
from bestofq_sites.webshop.suite import real_suite

RECORD = {
    "asin": "B000000001",
    "name": "Acme  Linen Shirt ",
    "query": "Dress Shirts ",
    "product_category": "Clothing › Men › Shirts",
    "pricing": "$1,234.5",
    "full_description": "Soft.\n\nVery soft.",
    "small_description": ["Linen ", "", "Machine wash"],
    "customization_options": {"Color": [{"value": " Black/White", "asin": "x"}, {"value": "Red"}], "Size": None},
    "average_rating": "",
}
ANNOTATION = {
    "attributes": ["machine wash"],
    "instruction": "find me a shirt",
    "instruction_attributes": ["machine wash"],
}


def write(folder: Path, *records: dict[str, object], annotations: object = None) -> Path:
    (folder / "items_shuffle_1000.json").write_text(json.dumps(records))
    entries = {str(r.get("asin")): ANNOTATION for r in records} if annotations is None else annotations
    (folder / "items_ins_v2_1000.json").write_text(json.dumps(entries))
    return folder


def test_a_record_is_read_as_the_published_code_reads_it(tmp_path: Path) -> None:
    [product] = load_catalogue(write(tmp_path, RECORD), seed=0).values()
    assert product.id == "B000000001"
    assert product.name == "Acme Linen Shirt"
    assert product.query == "dress shirts"
    assert product.category == ("Clothing", "Men", "Shirts")
    assert product.price == 1234.5
    assert product.description == "Soft. Very soft."
    assert product.bullets == ("Linen", "Machine wash")
    assert product.options == (Option(name="color", values=("black | white", "red")),)
    assert product.attributes == product.instruction_attributes == ("machine wash",)
    assert product.instruction == "find me a shirt"


def test_a_value_keeps_the_white_space_that_the_reward_compares(tmp_path: Path) -> None:
    sizes = {"Size": [{"value": "10\xa0CM  wide"}, {"value": "12 cm"}]}
    [product] = load_catalogue(write(tmp_path, RECORD | {"customization_options": sizes}), seed=0).values()
    assert product.options == (Option(name="size", values=("10 cm wide", "12 cm")),)
    assert product.published_values == (("10 cm wide", "10\xa0cm  wide"),)


def test_what_a_record_lacks_has_webshops_defaults(tmp_path: Path) -> None:
    bare = RECORD | {"pricing": "", "full_description": None, "small_description": "Linen", "customization_options": ""}
    [product] = load_catalogue(write(tmp_path, bare, annotations={"B000000001": {"attributes": []}}), seed=0).values()
    assert (product.price, product.description, product.bullets, product.options) == (100.0, "", ("Linen",), ())
    assert (product.instruction, product.instruction_attributes) == (None, ())


def test_a_range_of_prices_is_drawn_from_the_seed(tmp_path: Path) -> None:
    folder = write(
        tmp_path, RECORD | {"pricing": "$10.0$20.0"}, RECORD | {"asin": "B000000002", "pricing": "$10.0$20.0"}
    )
    prices = [[product.price for product in load_catalogue(folder, seed=seed).values()] for seed in (0, 0, 1)]
    assert prices[0] == prices[1]
    assert len({*prices[0], *prices[2]}) == 4
    assert all(10.0 <= price <= 20.0 for pair in prices for price in pair)


def test_repeated_and_overlong_ids_are_left_out(tmp_path: Path) -> None:
    records = [RECORD, RECORD | {"name": "Again"}, RECORD | {"asin": "nan"}, RECORD | {"asin": "B0000000011"}]
    assert [product.name for product in load_catalogue(write(tmp_path, *records), seed=0).values()] == [
        "Acme Linen Shirt"
    ]


def test_a_missing_file_is_named_with_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"items_shuffle_1000\.json \(No such file.*\): give the folder that holds"):
        load_catalogue(tmp_path, seed=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[{", "Invalid JSON"),
        ('{"asin": "x"}', "the whole file: Input should be a valid array"),
        ('[{"asin": "x", "query": "y", "product_category": "z"}]', r"1 errors, the first at 0\.name: Field required"),
        ("[]", "holds 0 products"),
        (json.dumps([RECORD | {"pricing": "$cheap"}]), r"B000000001 has the price '\$cheap'"),
        (json.dumps([RECORD | {"pricing": "12"}]), "has the price '12'"),
        (json.dumps([RECORD | {"asin": "B000000009"}]), "no entry for the product B000000009"),
    ],
)
def test_a_malformed_file_says_where(tmp_path: Path, content: str, message: str) -> None:
    write(tmp_path, RECORD)
    (tmp_path / "items_shuffle_1000.json").write_text(content)
    with pytest.raises(DataError, match=message):
        load_catalogue(tmp_path, seed=0)


def test_the_full_files_give_what_people_wrote_and_agent_qs_split(tmp_path: Path) -> None:
    """The fields that the published code reads of `items_human_ins.json`, and one that it does not."""
    number = 1_090
    ids = [f"B{i:09d}" for i in range(number)]
    (tmp_path / "items_shuffle.json").write_text(
        json.dumps([RECORD | {"asin": name, "pricing": "$25"} for name in ids])
    )
    (tmp_path / "items_ins_v2.json").write_text(json.dumps({ids[0]: ANNOTATION}))
    wrote = {
        "instruction": "i need a  black and white shirt.",
        "instruction_attributes": ["machine wash"],
        "instruction_options": ["black | white"],
        "worker_id": "x",
    }
    (tmp_path / "items_human_ins.json").write_text(json.dumps({name: [wrote] for name in ids}))
    suite = real_suite(WebShopSettings(data=tmp_path, seed=0))
    test, train = suite.tasks("test"), suite.tasks("train")
    assert (suite.name, len(test), len(train)) == ("webshop-human", 1_087, 3)
    assert not {task.id for task in test} & {task.id for task in train}
    goal = suite.goals[test[0].id]
    assert goal.instruction.startswith("i need a black and white shirt, and price lower than ")
    first = next(goal for goal in (suite.goals[t.id] for t in [*test, *train]) if goal.product_id == ids[0])
    whole = suite.rewards(first, ids[0], {"color": "black | white"})
    assert (whole.r_type, whole.r_att, whole.r_option, whole.r_price) == (1.0, 1.0, 1.0, 1.0)
    assert suite.rewards(first, ids[0], {"color": "red"}).r_option == 0.0
    with pytest.raises(InputError, match=r"webshop-human split as agent-q has no dev tasks: set suite\.splits"):
        suite.tasks("dev")
    assert len(real_suite(WebShopSettings(data=tmp_path, seed=0, splits="webshop")).tasks("dev")) == 590
    (tmp_path / "items_human_ins.json").unlink()
    with pytest.raises(DataError, match=r"items_human_ins\.json \(No such file.*`-d all`"):
        real_suite(WebShopSettings(data=tmp_path, seed=0))
