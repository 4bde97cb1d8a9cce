from hypothesis import HealthCheck, settings

collect_ignore = ["fake_worker.py"]  # a program that tests start, not a module

# The first example compiles; one contract class runs one test for several classes.
settings.register_profile(
    "bigdag", deadline=None, suppress_health_check=[HealthCheck.differing_executors]
)
settings.load_profile("bigdag")
