"""Frozen dataclasses that are cheap to make: the standard ones are compiled, six functions for each class.

There are so many here that this was a seventh of the time that `dpsql query` takes on a small file (0.8 ms a class,
here 0.1). Planning one query makes thousands of them, so `__init__` writes into the slots themselves. What they do is
the same; type checkers see the standard decorator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses
    from operator import attrgetter

    def dataclass(*, frozen, slots, eq=True, kw_only=False):
        """dataclasses.dataclass for frozen classes with slots: only __init__ is compiled."""
        assert frozen and slots

        def make(cls):
            shared = {"__repr__": _shown, "__setattr__": _set_once, "__delattr__": _never_deleted}
            shared |= {"__eq__": _equal, "__hash__": _hashed} if eq else {}
            defined = cls.__dict__.keys()
            made = dataclasses.dataclass(slots=True, init=False, repr=False, eq=False, kw_only=kw_only)(cls)
            shared["__init__"] = _init(made)
            compared = [f.name for f in dataclasses.fields(made) if f.compare]
            made._compared = attrgetter(*compared) if compared else _nothing
            for name, function in shared.items():
                if name not in defined:
                    setattr(made, name, function)
            return made

        return make

    def _init(made):
        """__init__, which is compiled: it fills each slot by its own descriptor."""
        # No field begins with two underscores: a parameter would hide what is meant here.
        scope, body = {"__missing": dataclasses.MISSING}, []
        heads = {False: ["self"], True: []}
        for slot in dataclasses.fields(made):
            name, value = slot.name, slot.name
            scope[f"__set_{name}"] = getattr(made, name).__set__
            has_default = slot.default is not dataclasses.MISSING
            has_factory = slot.default_factory is not dataclasses.MISSING
            scope[f"__of_{name}"] = slot.default if has_default else slot.default_factory
            if slot.init:
                default = f"=__of_{name}" if has_default else "=__missing" if has_factory else ""
                heads[slot.kw_only].append(name + default)
                if has_factory:
                    value = f"__of_{name}() if {name} is __missing else {name}"
            elif has_default or has_factory:
                value = f"__of_{name}" if has_default else f"__of_{name}()"
            else:
                continue
            body.append(f"__set_{name}(self, {value})")
        if hasattr(made, "__post_init__"):
            body.append("self.__post_init__()")
        head = ", ".join([*heads[False], *(["*", *heads[True]] if heads[True] else [])])
        exec(f"def __init__({head}):\n " + "\n ".join(body or ["pass"]), scope)
        init = scope["__init__"]
        init.__qualname__ = f"{made.__qualname__}.__init__"
        init.__annotations__ = {slot.name: slot.type for slot in dataclasses.fields(made) if slot.init}
        return init

    def _nothing(self):
        return ()

    def _equal(self, other):
        if self is other:
            return True
        return (
            type(self)._compared(self) == type(self)._compared(other) if type(other) is type(self) else NotImplemented
        )

    def _hashed(self):
        return hash(type(self)._compared(self))

    def _shown(self):
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr)
        return f"{type(self).__qualname__}({shown})"

    def _set_once(self, name, value):
        """Fill an empty slot, as __post_init__ and copies do; refuse to change one that is filled."""
        if hasattr(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def _never_deleted(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
