"""The state of one backward call: a Task for every node or leaf that it reaches, linked like the graph.

Nothing of a call lives on the nodes, so backward inside backward and backwards from several threads over one
graph both work.
"""
from __future__ import annotations

from heapq import heappush
from typing import Any, cast

from mypy_extensions import i64

from .objects import Node, edge
from .state import local


class Task:
    """What one backward call knows of one node or leaf."""

    def __init__(self, target: Any) -> None:
        self.target: Any = target
        self.deps: i64 = 0                  # readers that have not run yet
        self.grad: Any = None               # an array or Tensor; a list of them for several outputs
        self.owned: bool = False            # the buffer is the engine's own: accumulate in place
        self.needed: bool = True
        self.is_node: bool = False
        self.several: bool = False          # the node has several outputs: `grad` is a list
        self.wanted: dict[int, Any] | None = None   # gradients to capture, by output number
        self.t0: Task | None = None      # tasks of the edges
        self.t1: Task | None = None
        self.more: list[Task | None] | None = None


class Call:
    """One backward call: calls may nest and run side by side."""

    def __init__(self, retain: bool, create: bool, accumulate: bool) -> None:
        self.retain: bool = retain
        self.create: bool = create
        self.accumulate: bool = accumulate
        self.pruned: bool = False
        self.tasks: dict[Any, Task] = {}
        self.heap: list[Any] = []
        self.next: Task | None = None
        self.leaves: list[Task] = []
        self.line: Any = None               # (code, instruction) of the user's backward call
        self.notes: dict[Any, Any] | None = None    # of hooks that act once in a call
        self.callbacks: list[Any] = []      # called when the backward is done


def push(call: Call, task: Task) -> None:
    """Queue a ready node; `next` is the youngest, the rest are a heap."""
    top = call.next
    if top is None:
        call.next = task
        return
    a = cast(Node, task.target)
    b = cast(Node, top.target)
    if a.seq > b.seq:
        heappush(call.heap, (-int(b.seq), id(top), top))
        call.next = task
    else:
        heappush(call.heap, (-int(a.seq), id(task), task))


def task_edge(task: Task, i: i64) -> Task | None:
    if i == 0:
        return task.t0
    if i == 1:
        return task.t1
    m = task.more
    return None if m is None else m[int(i - 2)]


def done(call: Call, task: Task) -> None:
    """One reader of the task has run."""
    task.deps -= 1
    if task.deps == 0:
        if task.is_node:
            push(call, task)
        else:
            call.leaves.append(task)


def task_of(call: Call, e: Any, stack: list[Task]) -> Task:
    t = call.tasks.get(e)
    if t is None:
        t = Task(e)
        call.tasks[e] = t
        if isinstance(e, Node):
            t.is_node = True
            x = e.extra
            if x is not None and x.metas is not None:
                t.several = True
            stack.append(t)
    return t


def reach(call: Call, stack: list[Task]) -> None:
    """Make and link the tasks of all that the tasks in stack lead to, and count readers."""
    while stack:
        task = stack.pop()
        n: Node = cast(Node, task.target)
        e = n.e0
        if e is not None:
            t0 = task_of(call, e, stack)
            t0.deps += 1
            task.t0 = t0
        e = n.e1
        if e is not None:
            t1 = task_of(call, e, stack)
            t1.deps += 1
            task.t1 = t1
        if n.n > 2:
            m: list[Task | None] = []
            k: i64 = 2
            while k < n.n:
                e = edge(n, k)
                if e is None:
                    m.append(None)
                else:
                    tk = task_of(call, e, stack)
                    tk.deps += 1
                    m.append(tk)
                k += 1
            task.more = m


def has_needed(task: Task) -> bool:
    t = task.t0
    if t is not None and t.needed:
        return True
    t = task.t1
    if t is not None and t.needed:
        return True
    m = task.more
    if m is not None:
        for x in m:
            if x is not None and x.needed:
                return True
    return False


def current_call() -> Any:
    """The innermost backward that runs in this thread, or None."""
    return getattr(local, "call", None)


def notes_of(call: Call) -> dict[Any, Any]:
    """What hooks keep for the duration of a call."""
    d = call.notes
    if d is None:
        d = {}
        call.notes = d
    return d


def will_reach(call: Call, target: Any) -> bool:
    """Whether a gradient may come to a node or leaf in this call."""
    t = call.tasks.get(target)
    return t is not None and (t.needed or not call.pruned)


def prune(call: Call, starts: list[Task], wanted: list[Any]) -> None:
    """Mark the tasks on a way to one of wanted, a list of (node or leaf, output number).

    In topological order: sequence numbers are none, since a view's node made again may be younger than its
    reader.
    """
    call.pruned = True
    left: dict[Any, int] = {}
    topo: list[Task] = []
    for x in starts:
        if x.deps == 0:
            topo.append(x)
    i: i64 = 0
    while i < len(topo):
        task = topo[int(i)]
        i += 1
        task.needed = False
        target = task.target
        if isinstance(target, Node):
            k: i64 = 0
            while k < target.n:
                t = task_edge(task, k)
                if t is not None:
                    d: int = left.get(t, int(t.deps)) - 1
                    left[t] = d
                    if d == 0:
                        topo.append(t)
                k += 1
    for pair in wanted:
        w = call.tasks.get(pair[0])
        if w is not None:
            w.needed = True
            if w.wanted is None:
                w.wanted = {}
            w.wanted[pair[1]] = None
    i = len(topo) - 1
    while i >= 0:
        task = topo[int(i)]
        if has_needed(task):
            task.needed = True
        i -= 1
