# SPDX-License-Identifier: Apache-2.0
# Classes: dataclasses, hooks, enumerations, abstract ones, properties, repr.
# %%
import abc
import dataclasses
import enum
import functools
import typing

@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: int = 0
    tags: list = dataclasses.field(default_factory=list)

p = Point(1)
p
# %%
class Shape(abc.ABC):
    kinds = []

    def __init_subclass__(cls, **more):
        super().__init_subclass__(**more)
        Shape.kinds.append(cls.__name__)

    @abc.abstractmethod
    def area(self): ...

class Square(Shape):
    def __init__(self, a):
        self.a = a

    def area(self):
        return self.a**2

Square(3).area(), Shape.kinds
# %%
Shape()
# %%
class Color(enum.Enum):
    RED = "r"
    BLUE = "b"

Color.RED, Color("b"), list(Color)
# %%
@functools.lru_cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

fib(80)
# %%
Shape.kinds, p < Point(2), Color.RED is Color["RED"]
# %%
class Broken:
    def __repr__(self):
        raise ValueError("no repr")

    def _repr_html_(self):
        return "<b>fine</b>"

Broken()
# %%
class Named(typing.NamedTuple):
    a: int
    b: str = "b"

Named(1)
# %%
Point
# %%
p.tags.append(Square)
p.tags[0](4).area()
# %%
class Counter:
    total = 0

    def __init__(self):
        type(self).total += 1

counters = [Counter() for _ in range(3)]
Counter.total, isinstance(counters[0], Counter)
