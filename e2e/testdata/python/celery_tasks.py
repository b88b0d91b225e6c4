"""The tasks of celery_client.py, and where their broker is.

Each task appends a line to the file named by CELERY_LOG.
"""

import os
import time
from urllib.parse import quote, urlsplit

from celery import Celery

ENDPOINT = os.environ["SQS_ENDPOINT"]
KEY, SECRET = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
LOG = os.environ["CELERY_LOG"]
VISIBILITY = 8  # seconds: longer than any task waits, also on a busy machine

options = {"is_secure": False, "region": "us-east-1", "visibility_timeout": VISIBILITY, "wait_time_seconds": 2,
           "polling_interval": 0.1}
if os.environ.get("CELERY_QUEUE_URL"):
    options["predefined_queues"] = {"tasks": {"url": os.environ["CELERY_QUEUE_URL"]}}

app = Celery("celery_tasks", broker=f"sqs://{quote(KEY)}:{quote(SECRET)}@{urlsplit(ENDPOINT).netloc}/")
app.conf.update(broker_transport_options=options, task_default_queue="tasks", worker_enable_remote_control=False,
                task_ignore_result=True, broker_connection_retry_on_startup=True)


def note(*words):
    """Appends a line; one write, so that lines of two workers do not mix."""
    with open(LOG, "a") as f:
        f.write(" ".join(str(w) for w in words) + "\n")


@app.task
def quick(n):
    note("quick", n)


@app.task(acks_late=True)
def late(n, text):
    note("late", n, len(text))


@app.task(bind=True, max_retries=3)
def flaky(self):
    note("flaky", self.request.retries)
    if self.request.retries < 2:
        raise self.retry(countdown=1)


@app.task
def timed(due):
    note("timed", "early" if time.time() < due else "in-time")


@app.task(acks_late=True)
def slow(marker):
    """Never ends the first time."""
    if os.path.exists(marker):
        note("slow", "again")
        return
    open(marker, "w").close()
    note("slow", "first")
    time.sleep(60)
