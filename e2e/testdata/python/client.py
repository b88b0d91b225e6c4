"""Drives the SQS frontend with an unmodified boto3, old or new.

usage: client.py PROTOCOL

PROTOCOL is what this boto3 must speak: query (XML answers) or json. The
endpoint comes from SQS_ENDPOINT, everything else from boto3's own defaults.
"""

import hashlib
import json
import os
import struct
import sys
import threading
import time

import boto3
import botocore
from botocore.config import Config
from botocore.exceptions import ClientError

ENDPOINT = os.environ["SQS_ENDPOINT"]


def new_client():
    # One try: what the first answer says is what is tested.
    config = Config(retries={"max_attempts": 0}, read_timeout=30)
    return boto3.client("sqs", endpoint_url=ENDPOINT, config=config)


def md5(data):
    return hashlib.md5(data).hexdigest()


def md5_of_attributes(attributes):
    """The rule of the SQS documentation."""
    out = b""

    def add(value):
        return struct.pack(">I", len(value)) + value

    for name in sorted(attributes):
        a = attributes[name]
        out += add(name.encode()) + add(a["DataType"].encode())
        if a["DataType"].startswith("Binary"):
            out += b"\x02" + add(a["BinaryValue"])
        else:
            out += b"\x01" + add(a["StringValue"].encode())
    return md5(out)


def want_error(code, status, call, **kwargs):
    try:
        call(**kwargs)
    except ClientError as e:
        got = (e.response["Error"]["Code"], e.response["ResponseMetadata"]["HTTPStatusCode"])
        assert got == (code, status), f"got {got}, want {(code, status)}: {e}"
        return e.response["Error"]["Message"]
    raise AssertionError(f"no error, want {code}")


def receive(sqs, url, **kwargs):
    kwargs.setdefault("MaxNumberOfMessages", 10)
    kwargs.setdefault("WaitTimeSeconds", 2)
    # AttributeNames is the older name: old and new boto3 both have it.
    answer = sqs.receive_message(QueueUrl=url, AttributeNames=["All"], MessageAttributeNames=["All"], **kwargs)
    return answer.get("Messages", [])


def receive_all(sqs, url, count):
    got = []
    while len(got) < count:
        some = receive(sqs, url)
        assert some, f"got {len(got)} messages, want {count}"
        got += some
    return got


def check_queues(sqs):
    url = sqs.create_queue(QueueName="jobs", Attributes={"VisibilityTimeout": "7"})["QueueUrl"]
    assert url == f"{ENDPOINT}/000000000000/jobs", url
    assert sqs.create_queue(QueueName="jobs")["QueueUrl"] == url
    want_error("QueueAlreadyExists", 400, sqs.create_queue, QueueName="jobs", Attributes={"VisibilityTimeout": "8"})
    assert sqs.get_queue_url(QueueName="jobs")["QueueUrl"] == url
    want_error("AWS.SimpleQueueService.NonExistentQueue", 400, sqs.get_queue_url, QueueName="none")
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"MaximumMessageSize": "2048", "DelaySeconds": "0"})
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert attributes["MaximumMessageSize"] == "2048", attributes
    assert attributes["VisibilityTimeout"] == "7", attributes
    assert attributes["QueueArn"] == "arn:aws:sqs:us-east-1:000000000000:jobs", attributes
    some = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout", "DelaySeconds"])["Attributes"]
    assert some == {"VisibilityTimeout": "7", "DelaySeconds": "0"}, some

    urls = [sqs.create_queue(QueueName=f"list-{i:02}")["QueueUrl"] for i in range(15)]
    listed = []
    for page in sqs.get_paginator("list_queues").paginate(QueueNamePrefix="list-", PaginationConfig={"PageSize": 10}):
        listed += page.get("QueueUrls", [])
    assert sorted(listed) == urls, listed
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix="none")

    sqs.delete_queue(QueueUrl=url)
    want_error("AWS.SimpleQueueService.NonExistentQueue", 400, sqs.send_message, QueueUrl=url, MessageBody="x")


def check_messages(sqs):
    url = sqs.create_queue(QueueName="messages")["QueueUrl"]
    body = "äöü€😀 <a b=\"c\">&amp;</a> \\ \t\n end"
    attributes = {
        "text": {"DataType": "String", "StringValue": "wört <&>"},
        "number.x": {"DataType": "Number.x", "StringValue": "42"},
        "binary": {"DataType": "Binary", "BinaryValue": b"\x00\x01\xfe\xff"},
    }
    sent = sqs.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes)
    assert sent["MD5OfMessageBody"] == md5(body.encode()), sent
    assert sent["MD5OfMessageAttributes"] == md5_of_attributes(attributes), sent
    (m,) = receive_all(sqs, url, 1)
    assert m["Body"] == body and m["MessageId"] == sent["MessageId"], m
    assert m["MD5OfBody"] == sent["MD5OfMessageBody"], m
    assert m["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"], m
    for name, a in attributes.items():
        got = m["MessageAttributes"][name]
        assert {k: v for k, v in got.items() if v not in ([], None)} == a, (name, got)
    assert m["Attributes"]["ApproximateReceiveCount"] == "1", m
    assert abs(int(m["Attributes"]["SentTimestamp"]) / 1000 - time.time()) < 60, m
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=m["ReceiptHandle"], VisibilityTimeout=0)
    (again,) = receive_all(sqs, url, 1)
    assert again["Attributes"]["ApproximateReceiveCount"] == "2", again
    assert again["ReceiptHandle"] != m["ReceiptHandle"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])
    assert receive(sqs, url, WaitTimeSeconds=0) == []
    want_error("ReceiptHandleIsInvalid", 404, sqs.delete_message, QueueUrl=url, ReceiptHandle="garbage")
    want_error("InvalidParameterValue", 400, sqs.receive_message, QueueUrl=url, MaxNumberOfMessages=11)
    want_error("InvalidMessageContents", 400, sqs.send_message, QueueUrl=url, MessageBody="\x0b")
    text = want_error("InvalidParameterValue", 400, sqs.send_message, QueueUrl=url, MessageBody="x" * (1048576 + 1))
    assert "shorter than 1048576 bytes" in text, text


def check_batches(sqs):
    url = sqs.create_queue(QueueName="batches")["QueueUrl"]
    entries = [{"Id": f"e{i}", "MessageBody": str(i)} for i in range(10)]
    sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert sorted(e["Id"] for e in sent["Successful"]) == [e["Id"] for e in entries], sent
    assert not sent.get("Failed"), sent
    got = receive_all(sqs, url, 10)
    assert sorted(int(m["Body"]) for m in got) == list(range(10)), got
    handles = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(got)]
    changed = sqs.change_message_visibility_batch(
        QueueUrl=url, Entries=[dict(h, VisibilityTimeout=60) for h in handles])
    assert len(changed["Successful"]) == 10 and not changed.get("Failed"), changed
    removed = sqs.delete_message_batch(
        QueueUrl=url, Entries=handles[:9] + [{"Id": "bad", "ReceiptHandle": "garbage"}])
    assert len(removed["Successful"]) == 9, removed
    (failed,) = removed["Failed"]
    assert failed["Id"] == "bad" and failed["Code"] == "ReceiptHandleIsInvalid" and failed["SenderFault"], failed
    want_error("AWS.SimpleQueueService.TooManyEntriesInBatchRequest", 400,
               sqs.send_message_batch, QueueUrl=url, Entries=[dict(e, Id=f"x{i}") for i, e in enumerate(entries + entries)])
    want_error("AWS.SimpleQueueService.BatchEntryIdsNotDistinct", 400,
               sqs.send_message_batch, QueueUrl=url, Entries=[entries[0], entries[0]])
    sqs.purge_queue(QueueUrl=url)
    left = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"])
    assert set(left["Attributes"].values()) == {"0"}, left
    want_error("AWS.SimpleQueueService.PurgeQueueInProgress", 403, sqs.purge_queue, QueueUrl=url)


def check_fifo(sqs):
    url = sqs.create_queue(QueueName="f.fifo", Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "true"})["QueueUrl"]
    sent = [sqs.send_message(QueueUrl=url, MessageBody=f"m{i}", MessageGroupId="g") for i in range(4)]
    numbers = [s["SequenceNumber"] for s in sent]
    assert numbers == sorted(numbers) and all(len(n) == 20 for n in numbers), numbers
    repeat = sqs.send_message(QueueUrl=url, MessageBody="m0", MessageGroupId="g")
    assert repeat["MessageId"] == sent[0]["MessageId"] and repeat["SequenceNumber"] == numbers[0], repeat
    got = receive_all(sqs, url, 1)
    assert receive(sqs, url, WaitTimeSeconds=0) == [], "a locked group gave a message"
    bodies = []
    while got:
        bodies += [m["Body"] for m in got]
        for m in got:
            assert m["Attributes"]["MessageGroupId"] == "g", m
            sqs.delete_message(QueueUrl=url, ReceiptHandle=m["ReceiptHandle"])
        got = receive(sqs, url, WaitTimeSeconds=1)
    assert bodies == ["m0", "m1", "m2", "m3"], bodies
    want_error("MissingParameter", 400, sqs.send_message, QueueUrl=url, MessageBody="x")


def check_redrive(sqs):
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = sqs.create_queue(QueueName="alive", Attributes={"RedrivePolicy": policy, "VisibilityTimeout": "0"})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="poison")
    assert len(receive(sqs, url)) == 1
    assert receive(sqs, url, WaitTimeSeconds=0) == []
    (m,) = receive_all(sqs, dead, 1)
    assert m["Body"] == "poison" and m["Attributes"]["ApproximateReceiveCount"] == "2", m


def check_long_poll(sqs):
    url = sqs.create_queue(QueueName="poll")["QueueUrl"]
    got = []
    waiter = threading.Thread(target=lambda: got.extend(receive(new_client(), url, WaitTimeSeconds=20)))
    waiter.start()
    began = time.monotonic()
    sqs.send_message(QueueUrl=url, MessageBody="wake")
    waiter.join()
    assert [m["Body"] for m in got] == ["wake"] and time.monotonic() - began < 15, got
    began = time.monotonic()
    assert receive(sqs, url, WaitTimeSeconds=1) == []
    assert time.monotonic() - began >= 0.9


def main():
    protocol = sys.argv[1]
    sqs = new_client()
    print(f"{sys.executable}: Python {sys.version.split()[0]}, boto3 {boto3.__version__}, botocore {botocore.__version__}, "
          f"protocol {sqs.meta.service_model.protocol}")
    assert sqs.meta.service_model.protocol == protocol, f"this boto3 speaks {sqs.meta.service_model.protocol}, want {protocol}"
    for check in (check_queues, check_messages, check_batches, check_fifo, check_redrive, check_long_poll):
        check(sqs)
        print(check.__name__, "passed")


if __name__ == "__main__":
    main()
