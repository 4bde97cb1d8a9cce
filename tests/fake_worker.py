"""A stand-in for a run's process: it does what the job's method says, well or badly."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

job = json.loads(Path(sys.argv[1]).read_text())
what = job["method"]["parameters"]
do = what.get("do", "well")
diary = what.get("diary")


def write(text: str) -> None:
    if diary:
        with open(diary, "a") as file:  # one write of one line: whole also beside other processes
            file.write(f"{text} {job['run']} {os.getpid()}\n")


def hold(megabytes: int) -> bytearray:
    return bytearray(os.urandom(1)) * (megabytes * 2**20)


def result(**more: object) -> None:
    found = {"status": "converged", "seconds": what.get("sleep", 0.0), **more}
    found.setdefault("scores", [{"metric": "f1", "value": job["seed"] / 7, "weights": "dag",
                                 "directed": True}])  # fmt: skip
    temporary = Path(sys.argv[2] + ".tmp")
    temporary.write_text(json.dumps(found))
    temporary.replace(sys.argv[2])


write("begin")
if do == "meet":  # ends when so many have begun
    deadline = time.monotonic() + 100
    while Path(diary).read_text().count("begin") < what["meet"] and time.monotonic() < deadline:
        time.sleep(0.01)
    result()
elif do == "well":
    time.sleep(what.get("sleep", 0.0))
    result()
elif do == "hang":
    time.sleep(600)
elif do == "hang after the result":
    result()
    time.sleep(600)
elif do == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
elif do == "segfault":
    print("about to fall", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
elif do == "raise":
    raise ValueError("nobody caught this")
elif do == "kill the worker":  # of Dask: the parent of our guard
    import psutil

    os.kill(psutil.Process(os.getppid()).ppid(), signal.SIGKILL)
    time.sleep(600)
elif do == "nothing":
    pass
elif do == "half":
    Path(sys.argv[2]).write_text('{"status": "conv')
elif do == "error":
    result(status="error", message="the learner said no", scores=[])
elif do == "eat":
    held = hold(what["megabytes"])
    time.sleep(what.get("sleep", 600))
    result()
elif do == "eat in a child":
    code = f"x = bytearray(b'a') * ({what['megabytes']} * 2**20); import time; time.sleep(600)"
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    for child in children:
        write(f"child-{child.pid}")
    time.sleep(600)
elif do == "leave a child":
    # In the group, and with a session of its own.
    for alone in (False, True):
        child = subprocess.Popen(["sleep", "600"], start_new_session=alone)
        write(f"child-{child.pid}")
    time.sleep(what.get("sleep", 0.5))
    result()
elif do == "environment":
    result(message=json.dumps({k: v for k, v in os.environ.items() if k.endswith("_THREADS")}))
elif do == "look":
    # Finds out whether this run is in the store already: then it is done twice.
    import sqlite3

    sql = sqlite3.connect(f"file:{what['store']}?mode=ro", uri=True, timeout=30)
    if sql.execute("SELECT 1 FROM runs WHERE run = ?", (job["run"],)).fetchone():
        write("TWICE")
    sql.close()
    time.sleep(what.get("sleep", 0.0))
    write("end")
    result()
else:
    raise AssertionError(do)
