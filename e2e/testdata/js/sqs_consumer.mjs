// Runs an unmodified sqs-consumer: it receives what was sent, hands back what its
// handler refuses, deletes the rest, and stops. It wants queue URLs of the form
// http://host:port/000000000000/name.
import assert from "node:assert/strict";
import { CreateQueueCommand, GetQueueAttributesCommand, SendMessageBatchCommand, SQSClient } from "@aws-sdk/client-sqs";
import { Consumer } from "sqs-consumer";

const endpoint = process.env.SQS_ENDPOINT;
const count = 100;
const sqs = new SQSClient({ endpoint, maxAttempts: 1 });

async function run(queueName, attributes, group) {
  const created = await sqs.send(new CreateQueueCommand({ QueueName: queueName, Attributes: attributes }));
  const queueUrl = `${endpoint}/000000000000/${queueName}`;
  assert.equal(created.QueueUrl, queueUrl);
  for (let i = 0; i < count; i += 10) {
    const Entries = Array.from({ length: 10 }, (_, j) => ({
      Id: String(j),
      MessageBody: String(i + j),
      ...(group ? { MessageGroupId: "g", MessageDeduplicationId: String(i + j) } : {}),
    }));
    const sent = await sqs.send(new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries }));
    assert.equal(sent.Successful.length, 10);
  }

  const handled = [];
  const refused = new Set();
  await new Promise((resolve, reject) => {
    const consumer = Consumer.create({
      queueUrl, sqs, batchSize: 10, waitTimeSeconds: 1, visibilityTimeout: 30, terminateVisibilityTimeout: true,
      suppressFifoWarning: true,
      attributeNames: ["All"],
      handleMessage: async (m) => {
        // On the standard queue every tenth message fails once and comes again.
        if (!group && Number(m.Body) % 10 === 3 && !refused.has(m.Body)) {
          refused.add(m.Body);
          throw new Error("not now");
        }
        handled.push(m.Body);
        if (handled.length === count) {
          consumer.stop();
        }
        return m;
      },
    });
    consumer.on("error", reject);
    consumer.on("timeout_error", reject);
    consumer.on("stopped", resolve);
    consumer.start();
  });

  const want = Array.from({ length: count }, (_, i) => String(i));
  assert.deepEqual(group ? handled : [...handled].sort((a, b) => a - b), want);
  assert.equal(refused.size, group ? 0 : count / 10);
  // "stopped" comes when polling ends; the delete of the last batch may still be under way.
  for (let tries = 0; ; tries++) {
    const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ["All"] }));
    if (Attributes.ApproximateNumberOfMessages === "0" && Attributes.ApproximateNumberOfMessagesNotVisible === "0") {
      break;
    }
    assert.ok(tries < 100, `left behind: ${JSON.stringify(Attributes)}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  console.log(queueName, "passed");
}

await run("consumer", {}, false);
await run("consumer.fifo", { FifoQueue: "true" }, true);
sqs.destroy();
