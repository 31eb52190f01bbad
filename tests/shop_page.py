"""A page of a shop with a field and a link, and the state of a task there."""

from bestofq.core.decision import State
from bestofq.core.observation import Element, Observation, Task

PAGE = Observation(
    url="http://shop/",
    title="Shop",
    text="Search [1]\nMug [2]",
    elements=(Element(mark=1, role="textbox", name="Search"), Element(mark=2, role="link", name="Mug")),
)
STATE = State(task=Task(id="t", suite="s", goal="a mug", start_url="http://shop/"), observation=PAGE)
