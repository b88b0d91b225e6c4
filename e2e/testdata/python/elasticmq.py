"""Uses the queues of a configuration of ElasticMQ with boto3's resources.

usage: elasticmq.py send|receive
"""

import json
import os
import sys

import boto3

sqs = boto3.resource(
    "sqs",
    endpoint_url=os.environ["SQS_ENDPOINT"],
    region_name="elasticmq",
    aws_secret_access_key="x",
    aws_access_key_id="x",
    use_ssl=False,
)
names = sorted(q.url.rsplit("/", 1)[1] for q in sqs.queues.all())
assert names == ["audit", "jobs.fifo", "orders", "orders-dead"], names
orders = sqs.get_queue_by_name(QueueName="orders")
assert orders.attributes["VisibilityTimeout"] == "10", orders.attributes
assert orders.attributes["ReceiveMessageWaitTimeSeconds"] == "2", orders.attributes
policy = json.loads(orders.attributes["RedrivePolicy"])
assert policy["maxReceiveCount"] == 2, policy
assert policy["deadLetterTargetArn"].endswith(":orders-dead"), policy

if sys.argv[1] == "send":
    orders.send_message(MessageBody="kept")
else:
    (message,) = orders.receive_messages()
    assert message.body == "kept", message.body
    message.delete()
print("done", sys.argv[1])
