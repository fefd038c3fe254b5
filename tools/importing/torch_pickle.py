"""The pickles that `torch.save` writes, read as data: nothing that they name is ever called.

A pickle is a program for a small stack machine. This one knows only the instructions that build
dictionaries, lists, tuples, texts and numbers, and six names that stand for parts of tensors; it
has no means to import or call anything. (Instructions: CPython, Lib/pickletools.py; how tensors
are described: PyTorch, torch/_utils.py.)
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from shared.runtime.quoting import quoted
from tools.bundles.files import VoiceFileError

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping

MAX_INSTRUCTIONS = 2_000_000

STORAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "torch HalfStorage": "<f2",
        "torch FloatStorage": "<f4",
        "torch DoubleStorage": "<f8",
        "torch BFloat16Storage": "bfloat16",
        "torch LongStorage": "<i8",
        "torch IntStorage": "<i4",
        "torch ShortStorage": "<i2",
        "torch CharStorage": "<i1",
        "torch ByteStorage": "<u1",
        "torch BoolStorage": "?",
    }
)
"""The element types of storages: numpy's names, and one that numpy does not have."""

_ORDERED_DICT = "collections OrderedDict"
_TENSOR = ("torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor")
_PARAMETER = "torch._utils _rebuild_parameter"
_SIZE = "torch Size"
_KNOWN = frozenset({_ORDERED_DICT, *_TENSOR, _PARAMETER, _SIZE, *STORAGES})


@dataclass(frozen=True)
class TensorStorage:
    """The bytes of one or more tensors: where they lie, and as what.

    Attributes:
        element_type: one of the values of `STORAGES`.
    """

    key: str
    element_type: str
    count: int


@dataclass(frozen=True)
class TensorPlace:
    storage: TensorStorage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class _Name:
    """A name in a pickle: "module attribute"; perhaps of something that is passed over."""

    text: str
    is_passed_over: bool = False


class _Mark:
    """Where a list, a tuple or a dictionary begins on the stack."""


def read_pickle(content: bytes, *, passed_over: re.Pattern[str] | None = None) -> object:
    """Read a pickle of `torch.save`.

    Args:
        passed_over: which further names, as "module attribute", a pickle may have. An object of
            such a kind is read as an empty dictionary; nothing of it is called, either.

    Returns:
        Dictionaries, lists, tuples, texts, bytes, numbers, None, and `TensorPlace`.
    """
    machine = _Machine(passed_over)
    try:
        for instruction, argument, _ in islice(pickletools.genops(content), MAX_INSTRUCTIONS):
            if instruction.name == "STOP":
                return machine.result()
            machine.follow(instruction.name, argument)
    except VoiceFileError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, EOFError, OverflowError) as error:
        raise VoiceFileError(
            "part 'data.pkl': expected a well-formed pickle, found a damaged one"
            f" ({type(error).__name__})."
        ) from error
    raise VoiceFileError(
        f"part 'data.pkl': expected an end within {MAX_INSTRUCTIONS} instructions, found none."
    )


class _Machine:
    def __init__(self, passed_over: re.Pattern[str] | None) -> None:
        self._passed_over = passed_over
        self._stack: list[Any] = []
        self._memory: dict[int, Any] = {}
        push = self._stack.append
        self._handlers: dict[str, Callable[[Any], None]] = {
            **dict.fromkeys(("PROTO", "FRAME"), lambda _: None),
            **dict.fromkeys(_PUSHING, push),
            **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), self.put),
            **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda at: push(self._memory[at])),
            "MEMOIZE": lambda _: self.put(len(self._memory)),
            "NONE": lambda _: push(None),
            "NEWTRUE": lambda _: push(True),
            "NEWFALSE": lambda _: push(False),
            "MARK": lambda _: push(_Mark()),
            "EMPTY_DICT": lambda _: push({}),
            "EMPTY_LIST": lambda _: push([]),
            "EMPTY_TUPLE": lambda _: push(()),
            "TUPLE": lambda _: push(tuple(self.since_mark())),
            "TUPLE1": lambda _: push(tuple(self.take(1))),
            "TUPLE2": lambda _: push(tuple(self.take(2))),
            "TUPLE3": lambda _: push(tuple(self.take(3))),
            "APPEND": lambda _: self._extend(self.take(1)),
            "APPENDS": lambda _: self._extend(self.since_mark()),
            "SETITEM": lambda _: self._update(self.take(2)),
            "SETITEMS": lambda _: self._update(self.since_mark()),
            "BUILD": self.build,
            "GLOBAL": self._name,
            "STACK_GLOBAL": lambda _: self._name(" ".join(self.take(2))),
            "REDUCE": lambda _: push(rebuilt(*self.take(2))),
            "NEWOBJ": lambda _: push(_passed_over(*self.take(2))),
            "BINPERSID": lambda _: push(_storage(*self.take(1))),
        }

    def follow(self, name: str, argument: Any) -> None:
        handler = self._handlers.get(name)
        if handler is None:
            raise VoiceFileError(
                f"part 'data.pkl': expected only data, found the instruction {name}, which voices"
                " do not need; nothing of it was run."
            )
        handler(argument)

    def result(self) -> object:
        (value,) = self._stack
        return value

    def take(self, count: int) -> list[Any]:
        values = self._stack[-count:]
        if len(values) < count or any(isinstance(value, _Mark) for value in values):
            raise ValueError
        del self._stack[-count:]
        return values

    def since_mark(self) -> list[Any]:
        at = len(self._stack) - 1
        while not isinstance(self._stack[at], _Mark):
            at -= 1
            if at < 0:
                raise ValueError
        values = self._stack[at + 1 :]
        del self._stack[at:]
        return values

    def put(self, place: int) -> None:
        self._memory[place] = self._stack[-1]

    def _extend(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if not isinstance(target, list):
            raise TypeError
        target.extend(values)

    def _update(self, values: list[Any]) -> None:
        target = self._stack[-1]
        keys = values[::2]
        # A tuple as a key could take for ever to hash.
        if not isinstance(target, dict) or not all(isinstance(key, str | int) for key in keys):
            raise TypeError
        target.update(zip(keys, values[1::2], strict=True))

    def build(self, _argument: Any) -> None:
        """Pass over the attributes of a dictionary, which PyTorch's state dictionaries have."""
        self.take(1)
        if not isinstance(self._stack[-1], dict):
            raise TypeError

    def _name(self, text: str) -> None:
        if text not in _KNOWN and self._passed_over and self._passed_over.fullmatch(text):
            self._stack.append(_Name(text, is_passed_over=True))
            return
        if text not in _KNOWN:
            raise VoiceFileError(
                f"part 'data.pkl': expected tensors and plain values, found a call of"
                f" {quoted(text.replace(' ', '.'))}; nothing of it was run."
            )
        self._stack.append(_Name(text))


_PUSHING = (
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("SHORT_BINBYTES", "BINBYTES", "BINSTRING", "SHORT_BINSTRING"),
)


def rebuilt(name: object, arguments: object) -> object:
    if not isinstance(name, _Name) or not isinstance(arguments, tuple):
        raise TypeError
    if name.is_passed_over:
        return {}
    if name.text == _ORDERED_DICT:
        return dict(_pairs(*arguments))
    if name.text == _SIZE:
        return whole_numbers(*arguments)
    if name.text == _PARAMETER:
        tensor, *_ = arguments
        if not isinstance(tensor, TensorPlace):
            raise TypeError
        return tensor
    if name.text in _TENSOR:
        return _tensor(*arguments)
    raise TypeError


def _passed_over(name: object, _arguments: object) -> dict[str, Any]:
    """Build the stand-in for a new object of a kind that is passed over."""
    if not isinstance(name, _Name) or not name.is_passed_over:
        raise TypeError
    return {}


def _pairs(pairs: object = ()) -> list[tuple[str | int, Any]]:
    if not isinstance(pairs, list | tuple):
        raise TypeError
    for pair in pairs:
        key, _ = pair
        if not isinstance(key, str | int):
            raise TypeError
    return list(pairs)


def _tensor(
    storage: object, offset: object, shape: object, strides: object, *_flags: object
) -> TensorPlace:
    if not isinstance(storage, TensorStorage) or not is_count(offset):
        raise TypeError
    sizes, steps = whole_numbers(shape), whole_numbers(strides)
    if len(sizes) != len(steps):
        raise ValueError
    return TensorPlace(storage, int(offset), sizes, steps)  # type: ignore[call-overload]


def _storage(description: object) -> TensorStorage:
    kind, name, key, _location, count = description  # type: ignore[misc]
    if kind != "storage" or not isinstance(name, _Name) or not isinstance(key, str):  # type: ignore[has-type]
        raise TypeError
    if name.text not in STORAGES or not is_count(count):  # type: ignore[has-type]
        raise TypeError
    return TensorStorage(key, STORAGES[name.text], count)  # type: ignore[has-type]


def whole_numbers(values: object) -> tuple[int, ...]:
    if not isinstance(values, list | tuple) or not all(is_count(value) for value in values):
        raise TypeError
    return tuple(values)


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
