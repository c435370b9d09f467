"""The Pareto front and its neighbours."""

from host.explore.front import Objective, neighbours, pareto_front


def front(*points, ties=None, relative=True):
    costs = list(zip(*points, strict=True))
    objectives = [Objective(cost, relative) for cost in costs]
    return pareto_front(objectives, ties or [0] * len(points))


def test_what_another_point_beats_is_not_on_the_front():
    assert front((1, 9), (2, 5), (3, 7), (4, 4), (9, 1)) == [0, 1, 3, 4]


def test_costs_that_are_nearly_equal_count_as_equal():
    # The second is faster by a part in ten thousand and needs half as much again.
    assert front((1.0001, 20), (1.0, 30)) == [0]
    assert front((1.1, 20), (1.0, 30)) == [1, 0]


def test_of_equal_points_the_one_with_fewer_ties_is_taken():
    assert front((1, 5), (1, 5), (1, 5), ties=[9, 3, 4]) == [1]


def test_shares_are_compared_by_their_difference():
    assert front((0.0, 2.0), (0.5, 1.0), (0.5004, 1.0), relative=False) == [0, 1]


def test_no_points_have_no_front():
    assert pareto_front([], []) == []


def test_the_nearest_points_are_those_with_the_fewest_steps():
    places = [(0, 0), (0, 1), (1, 1), (2, 0), (4, 4)]
    costs = [1, 1, 1, 1, 1]
    assert neighbours([0], places, 0, costs) == []
    assert neighbours([0], places, 1, costs) == [1]
    assert neighbours([0], places, 3, costs) == [1, 2, 3]
    assert neighbours([0, 4], places, 1, costs) == [1, 2]


def test_of_points_as_near_the_cheaper_ones_are_taken():
    places = [(0, 0), (1, 0), (0, 1)]
    assert neighbours([0], places, 1, [1, 5, 2]) == [2]
