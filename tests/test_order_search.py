"""OrderSearch: both scores against enumeration, equivalence, units and the contract."""

from __future__ import annotations

from learner_contract import LearnerContract

from bigdag import OrderSearch


class TestLeastSquares(LearnerContract):
    make = staticmethod(lambda: OrderSearch())


class TestBIC(LearnerContract):
    make = staticmethod(lambda: OrderSearch(score="bic"))
