"""What holds for all tests."""


def pytest_generate_tests(metafunc):
    """Refuse values without an order: every worker of a parallel run must collect the same tests,
    and the order of a set differs from process to process."""
    for marker in metafunc.definition.iter_markers("parametrize"):
        values = marker.kwargs.get("argvalues", marker.args[-1])
        if isinstance(values, set | frozenset):
            raise TypeError(f"{metafunc.definition.nodeid}: sort the set given to parametrize")
