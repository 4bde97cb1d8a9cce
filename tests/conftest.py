import os

import pytest
from hypothesis import HealthCheck, settings

collect_ignore = ["fake_worker.py"]  # a program that tests start, not a module

# Threads of torch and of BLAS that have nothing to do sleep, instead of taking the processor from
# the other worker and from the processes that tests start. Read when a library is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

# The first example compiles; one contract class runs one test for several classes.
settings.register_profile(
    "bigdag", deadline=None, suppress_health_check=[HealthCheck.differing_executors]
)
settings.load_profile("bigdag")

# The longest files, in this sequence: they begin first, so that all workers end at the same time.
_LONGEST = (
    "test_report", "test_report_page", "test_cli", "test_on_dask", "test_golem", "test_journal",
    "test_experiment_command", "test_experiment_cluster", "test_tables", "test_order_search",
    "test_notears", "test_knowledge", "test_gd", "test_convergence", "test_optimas",
    "test_proximas", "test_bootstrap_command", "test_graph_files", "test_torch_learners",
    "test_experiment_runner", "test_checks", "test_prepare", "test_knowledge_command",
    "test_printing", "test_moves", "test_models", "test_interrupts", "test_dag", "test_insertion",
    "test_metrics", "test_orders", "test_plot", "test_explore_page", "test_auto", "test_outside",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    """Let the longest files begin first."""
    places = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give the tests of a file to one worker, and those of two that share a report."""
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return super()._split_scope(nodeid).replace("test_report_page", "test_report")

    return ByFile(config, log)


@pytest.fixture(scope="session")
def big_report(tmp_path_factory):
    """Return the folder with the store and the report of `everything`."""
    from bigdag.experiments.report.write import write_report
    from report_stores import everything, fill

    folder = tmp_path_factory.mktemp("big-report")
    write_report(fill(folder / "runs.db", everything()), folder / "report")
    return folder
