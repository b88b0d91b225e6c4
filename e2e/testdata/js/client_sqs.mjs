// Drives the SQS frontend with an unmodified @aws-sdk/client-sqs, which checks
// the MD5 of every body by itself. The endpoint comes from SQS_ENDPOINT.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import {
  ChangeMessageVisibilityBatchCommand,
  ChangeMessageVisibilityCommand,
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  DeleteMessageCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  GetQueueUrlCommand,
  ListQueuesCommand,
  PurgeQueueCommand,
  QueueDoesNotExist,
  QueueNameExists,
  ReceiveMessageCommand,
  ReceiptHandleIsInvalid,
  SendMessageBatchCommand,
  SendMessageCommand,
  SetQueueAttributesCommand,
  SQSClient,
  paginateListQueues,
} from "@aws-sdk/client-sqs";

const endpoint = process.env.SQS_ENDPOINT;
const sqs = new SQSClient({ endpoint, maxAttempts: 1 });
const send = (Command, input) => sqs.send(new Command(input));
const md5 = (data) => createHash("md5").update(data).digest("hex");

// The rule of the SQS documentation.
function md5OfAttributes(attributes) {
  const parts = [];
  const add = (value) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(value.length);
    parts.push(length, value);
  };
  for (const name of Object.keys(attributes).sort()) {
    const a = attributes[name];
    add(Buffer.from(name));
    add(Buffer.from(a.DataType));
    const binary = a.DataType.startsWith("Binary");
    parts.push(Buffer.from([binary ? 2 : 1]));
    add(Buffer.from(binary ? a.BinaryValue : a.StringValue));
  }
  return md5(Buffer.concat(parts));
}

async function receive(QueueUrl, options = {}) {
  const out = await send(ReceiveMessageCommand, {
    QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 2,
    MessageSystemAttributeNames: ["All"], MessageAttributeNames: ["All"], ...options,
  });
  return out.Messages ?? [];
}

async function receiveAll(url, count) {
  const all = [];
  while (all.length < count) {
    const some = await receive(url);
    assert.ok(some.length > 0, `got ${all.length} messages, want ${count}`);
    all.push(...some);
  }
  return all;
}

const checks = {
  async queues() {
    const { QueueUrl } = await send(CreateQueueCommand, { QueueName: "jobs", Attributes: { VisibilityTimeout: "7" } });
    assert.equal(QueueUrl, `${endpoint}/000000000000/jobs`);
    await assert.rejects(send(CreateQueueCommand, { QueueName: "jobs", Attributes: { VisibilityTimeout: "8" } }), QueueNameExists);
    assert.equal((await send(GetQueueUrlCommand, { QueueName: "jobs" })).QueueUrl, QueueUrl);
    await assert.rejects(send(GetQueueUrlCommand, { QueueName: "none" }), QueueDoesNotExist);
    await send(SetQueueAttributesCommand, { QueueUrl, Attributes: { MaximumMessageSize: "2048" } });
    const { Attributes } = await send(GetQueueAttributesCommand, { QueueUrl, AttributeNames: ["All"] });
    assert.equal(Attributes.MaximumMessageSize, "2048");
    assert.equal(Attributes.VisibilityTimeout, "7");
    const urls = [];
    for (let i = 10; i < 25; i++) {
      urls.push((await send(CreateQueueCommand, { QueueName: `list-${i}` })).QueueUrl);
    }
    const listed = [];
    for await (const page of paginateListQueues({ client: sqs, pageSize: 10 }, { QueueNamePrefix: "list-" })) {
      listed.push(...(page.QueueUrls ?? []));
    }
    assert.deepEqual(listed.sort(), urls);
    assert.equal((await send(ListQueuesCommand, { QueueNamePrefix: "none" })).QueueUrls?.length ?? 0, 0);
    await send(DeleteQueueCommand, { QueueUrl });
    await assert.rejects(send(SendMessageCommand, { QueueUrl, MessageBody: "x" }), QueueDoesNotExist);
  },

  async messages() {
    const { QueueUrl } = await send(CreateQueueCommand, { QueueName: "messages" });
    const MessageBody = 'äöü€😀 <a b="c">&amp;</a> \\ \t\n end';
    const MessageAttributes = {
      text: { DataType: "String", StringValue: "wört <&>" },
      "number.x": { DataType: "Number.x", StringValue: "42" },
      binary: { DataType: "Binary", BinaryValue: Uint8Array.of(0, 1, 254, 255) },
    };
    const sent = await send(SendMessageCommand, { QueueUrl, MessageBody, MessageAttributes });
    assert.equal(sent.MD5OfMessageBody, md5(MessageBody));
    assert.equal(sent.MD5OfMessageAttributes, md5OfAttributes(MessageAttributes));
    const [m] = await receiveAll(QueueUrl, 1);
    assert.equal(m.Body, MessageBody);
    assert.equal(m.MessageId, sent.MessageId);
    assert.equal(m.MD5OfMessageAttributes, sent.MD5OfMessageAttributes);
    assert.equal(m.MessageAttributes["number.x"].StringValue, "42");
    assert.deepEqual(m.MessageAttributes.binary.BinaryValue, MessageAttributes.binary.BinaryValue);
    assert.equal(m.Attributes.ApproximateReceiveCount, "1");
    await send(ChangeMessageVisibilityCommand, { QueueUrl, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 0 });
    const [again] = await receiveAll(QueueUrl, 1);
    assert.equal(again.Attributes.ApproximateReceiveCount, "2");
    await send(DeleteMessageCommand, { QueueUrl, ReceiptHandle: again.ReceiptHandle });
    await assert.rejects(send(DeleteMessageCommand, { QueueUrl, ReceiptHandle: "garbage" }), (e) => {
      assert.ok(e instanceof ReceiptHandleIsInvalid, String(e));
      assert.equal(e.$metadata.httpStatusCode, 404);
      return true;
    });
  },

  async batches() {
    const { QueueUrl } = await send(CreateQueueCommand, { QueueName: "batches" });
    const Entries = Array.from({ length: 10 }, (_, i) => ({ Id: `e${i}`, MessageBody: String(i) }));
    const sent = await send(SendMessageBatchCommand, { QueueUrl, Entries });
    assert.equal(sent.Successful.length, 10);
    const got = await receiveAll(QueueUrl, 10);
    const handles = got.map((m, i) => ({ Id: String(i), ReceiptHandle: m.ReceiptHandle }));
    const changed = await send(ChangeMessageVisibilityBatchCommand, {
      QueueUrl, Entries: handles.map((h) => ({ ...h, VisibilityTimeout: 60 })),
    });
    assert.equal(changed.Successful.length, 10);
    const removed = await send(DeleteMessageBatchCommand, {
      QueueUrl, Entries: [...handles.slice(0, 9), { Id: "bad", ReceiptHandle: "garbage" }],
    });
    assert.equal(removed.Successful.length, 9);
    assert.equal(removed.Failed.length, 1);
    assert.equal(removed.Failed[0].Code, "ReceiptHandleIsInvalid");
    await send(PurgeQueueCommand, { QueueUrl });
    assert.equal((await receive(QueueUrl, { WaitTimeSeconds: 0 })).length, 0);
  },

  async fifo() {
    const { QueueUrl } = await send(CreateQueueCommand, { QueueName: "f.fifo", Attributes: { FifoQueue: "true" } });
    for (let i = 0; i < 4; i++) {
      await send(SendMessageCommand, { QueueUrl, MessageBody: `m${i}`, MessageGroupId: "g", MessageDeduplicationId: `d${i}` });
    }
    await send(SendMessageCommand, { QueueUrl, MessageBody: "again", MessageGroupId: "g", MessageDeduplicationId: "d0" });
    const bodies = [];
    for (let got = await receive(QueueUrl); got.length > 0; got = await receive(QueueUrl, { WaitTimeSeconds: 1 })) {
      for (const m of got) {
        bodies.push(m.Body);
        await send(DeleteMessageCommand, { QueueUrl, ReceiptHandle: m.ReceiptHandle });
      }
    }
    assert.deepEqual(bodies, ["m0", "m1", "m2", "m3"]);
  },

  async longPoll() {
    const { QueueUrl } = await send(CreateQueueCommand, { QueueName: "poll" });
    const woken = receive(QueueUrl, { WaitTimeSeconds: 20 });
    await send(SendMessageCommand, { QueueUrl, MessageBody: "wake" });
    assert.deepEqual((await woken).map((m) => m.Body), ["wake"]);
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(name, "passed");
}
sqs.destroy();
