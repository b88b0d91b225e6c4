"""Runs Celery, unmodified, with the broker as its SQS.

usage: celery_client.py auto|predefined

The endpoint comes from SQS_ENDPOINT. With auto, Celery creates its queue. What
the tasks have done stands in a file.
"""

import collections
import os
import signal
import subprocess
import sys
import tempfile
import time

import boto3

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 50  # seconds
sqs = boto3.client("sqs", endpoint_url=os.environ["SQS_ENDPOINT"], region_name="us-east-1")


def wait_for(what, f):
    end = time.time() + PATIENCE
    while not f():
        assert time.time() < end, f"{what}: not within {PATIENCE} s; {lines()}"
        time.sleep(0.05)


def lines():
    """What the tasks have written, counted."""
    try:
        with open(os.environ["CELERY_LOG"]) as f:
            return collections.Counter(f.read().splitlines())
    except FileNotFoundError:
        return collections.Counter()


def start_worker(started):
    started.append(subprocess.Popen([sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "--pool", "solo", "--loglevel",
                             "warning", "--without-gossip", "--without-mingle", "--without-heartbeat"], cwd=HERE))
    return started[-1]


def all_run():
    """Sends tasks of every kind, and waits until each has run as often as it must."""
    import celery_tasks as tasks

    want = collections.Counter()
    for i in range(200):
        tasks.quick.delay(i)
        want[f"quick {i}"] += 1
    for i in range(10):
        size = 1 + i * 15_000  # in base64 and its envelope a third more
        tasks.late.delay(i, "x" * size)
        want[f"late {i} {size}"] += 1
    tasks.flaky.delay()
    want.update(["flaky 0", "flaky 1", "flaky 2"])
    tasks.timed.apply_async((time.time() + 2,), countdown=2)
    want["timed in-time"] += 1
    wait_for(f"all of {sum(want.values())} runs", lambda: lines() == want)
    return want


def killed_worker(started, want):
    """A worker that is killed in a task with acks_late leaves it to the next."""
    import celery_tasks as tasks

    tasks.slow.delay(os.environ["CELERY_LOG"] + ".marker")
    want.update(["slow first"])
    wait_for("start of the slow task", lambda: lines() == want)
    began = time.time()
    started[-1].kill()
    started[-1].wait()
    start_worker(started)
    want.update(["slow again"])
    wait_for("second run of the slow task", lambda: lines() == want)
    took = time.time() - began
    assert took < tasks.VISIBILITY + 10, f"run again after {took:.1f} s"


def empty(url):
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return all(attributes[n] == "0" for n in names)


def main(folder):
    os.environ["CELERY_LOG"] = os.path.join(folder, "log")
    if sys.argv[1] == "predefined":
        os.environ["CELERY_QUEUE_URL"] = sqs.create_queue(QueueName="tasks", Attributes={"VisibilityTimeout": "8"})["QueueUrl"]
    started = []
    start_worker(started)
    try:
        want = all_run()
        url = sqs.get_queue_url(QueueName="tasks")["QueueUrl"]
        wait_for("the acknowledgements", lambda: empty(url))
        killed_worker(started, want)
        wait_for("an empty queue", lambda: empty(url))
        started[-1].send_signal(signal.SIGTERM)
        code = started[-1].wait(PATIENCE)
        assert code == 0, f"exit code {code} after SIGTERM"
    finally:
        for worker in started:
            worker.kill()
            worker.wait()
    assert lines() == want, lines() - want


with tempfile.TemporaryDirectory() as folder:
    main(folder)
