"""A binary heap of variables, the one with the least key first, whose keys may change."""

from __future__ import annotations

import numpy as np

from bigdag.compiled import kernel

__all__ = ["pop", "sift"]


@kernel(inside=True, _nrt=False)
def sift(heap, place, key, at, size):  # type: ignore[no-untyped-def]
    """Restore the heap at one place, in place: up if it can rise, else down."""
    v = heap[at]
    while at > 0:
        up = (at - 1) >> 1
        u = heap[up]
        if key[v] < key[u] or (key[v] == key[u] and v < u):
            heap[at] = u
            place[u] = at
            at = up
        else:
            break
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        c = heap[child]
        if child + 1 < size:
            r = heap[child + 1]
            if key[r] < key[c] or (key[r] == key[c] and r < c):
                child += 1
                c = r
        if key[c] < key[v] or (key[c] == key[v] and c < v):
            heap[at] = c
            place[c] = at
            at = child
        else:
            break
    heap[at] = v
    place[v] = at


@kernel(inside=True, _nrt=False)
def pop(heap, place, key, size):  # type: ignore[no-untyped-def]
    """Take the first variable out of the heap, in place; its place becomes -1."""
    v = heap[0]
    place[v] = -1
    if size > 1:
        heap[0] = heap[size - 1]
        place[heap[0]] = 0
        sift(heap, place, key, np.int64(0), size - 1)
    return v
