"""What needs the packages of tools/training/requirements.txt is tested where they are installed."""

from importlib.util import find_spec

_NEEDS = {
    "scipy": ["test_augment.py"],
    "torch": [
        "test_disturbance.py",
        "test_folded.py",
        "test_measures.py",
        "test_network.py",
        "test_spectrum.py",
        "test_stream.py",
    ],
    "pyworld": ["test_measures.py"],
}
collect_ignore = sorted(
    {file for name, files in _NEEDS.items() if find_spec(name) is None for file in files}
)


def pytest_report_header() -> str:
    """Report which tests are left out, and why."""
    if not collect_ignore:
        return "training: all tests"
    return f"training: without {', '.join(collect_ignore)}: no tools/training/requirements.txt"
