"""Signs with boto3, old or new, at a node that knows the access key of the
environment, and with credentials that it does not know.

usage: signed.py

The endpoint comes from SQS_ENDPOINT. Requests are made by boto3, and as kombu
makes them: GET with a presigned URL, POST with a form, both signed by botocore.
"""

import os
import sys
import urllib.error
import urllib.request

import boto3
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.exceptions import ClientError

ENDPOINT = os.environ["SQS_ENDPOINT"]
KEY, SECRET = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]


def client(key=KEY, secret=SECRET, token=None, region="us-east-1"):
    config = Config(retries={"max_attempts": 0}, read_timeout=30)
    return boto3.client("sqs", endpoint_url=ENDPOINT, config=config, region_name=region,
                        aws_access_key_id=key, aws_secret_access_key=secret, aws_session_token=token)


def kombu(sqs, method, url, **params):
    """One request as kombu's own SQS connection makes it."""
    params["Version"] = "2012-11-05"
    if method == "GET":
        request, kind = AWSRequest(method=method, url=url, params=params), "presign-url"
    else:
        request, kind = AWSRequest(method=method, url=url, data=params), "standard"
    sqs._request_signer.sign(params["Action"], request, signing_type=kind)
    p = request.prepare()
    body = p.body.encode() if isinstance(p.body, str) else p.body
    try:
        sent = urllib.request.Request(p.url, data=body or None, headers=dict(p.headers.items()), method=method)
        with urllib.request.urlopen(sent, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def main():
    sqs = client()
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    for good in (sqs, client(region="eu-central-1"), client(token="a/b+c==")):
        sent = good.send_message(QueueUrl=url, MessageBody="a b+c/ü&~*")
        (m,) = good.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
        assert m["MessageId"] == sent["MessageId"], m
        good.delete_message(QueueUrl=url, ReceiptHandle=m["ReceiptHandle"])

    for bad, code in ((client(secret="wrong"), "SignatureDoesNotMatch"), (client(key="nobody"), "InvalidClientTokenId")):
        try:
            bad.send_message(QueueUrl=url, MessageBody="x")
            raise AssertionError(f"no error, want {code}")
        except ClientError as e:
            got = (e.response["Error"]["Code"], e.response["ResponseMetadata"]["HTTPStatusCode"])
            assert got == (code, 403), e

    for method in ("GET", "POST"):
        status, body = kombu(sqs, method, url, Action="SendMessage", MessageBody="a b+c/ü&~*", QueueUrl=url)
        assert status == 200 and "<MessageId>" in body, (method, status, body)
        status, body = kombu(sqs, method, url, Action="ReceiveMessage", MaxNumberOfMessages="1", WaitTimeSeconds="5")
        assert status == 200 and "a b+c/ü&amp;~*" in body, (method, status, body)
        for bad, code in ((client(secret="wrong"), "SignatureDoesNotMatch"), (client(key="nobody"), "InvalidClientTokenId")):
            status, body = kombu(bad, method, url, Action="ReceiveMessage")
            assert status == 403 and f"<Code>{code}</Code>" in body, (method, status, body)
    print(f"{sys.executable}: boto3 {boto3.__version__} passed")


if __name__ == "__main__":
    main()
