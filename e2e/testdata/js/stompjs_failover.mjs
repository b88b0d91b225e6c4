// Has unmodified @stomp/stompjs clients go on by their own reconnect when the
// primary of a cluster is killed, and checks that what has a RECEIPT holds.
//
// usage: stompjs_failover.mjs URL-OF-THE-STANDBY URL-OF-THE-PRIMARY
//
// It prints KILL when the primary is to be killed.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "@stomp/stompjs";
import WebSocket from "ws";

globalThis.WebSocket = WebSocket;
const [standby, primary] = process.argv.slice(2);
const COUNT = 400; // messages of each pair
const WINDOW = 10; // under way at a time
const KILL_AT = 150;
const late = 80_000;

// activate starts a client that begins at the first of urls, and goes on to the
// next one with each connection that it makes.
function activate(urls, onConnect) {
  let connects = 0;
  const client = new Client({
    reconnectDelay: 100,
    heartbeatIncoming: 2000,
    heartbeatOutgoing: 2000,
    beforeConnect: (c) => (c.brokerURL = urls[connects++ % urls.length]),
    onConnect: () => onConnect(client),
  });
  client.activate();
  return client;
}

// produce sends until each message has its RECEIPT. What has none when a connection
// is lost is sent again on the next one.
function produce(urls, queue, progress) {
  const receipts = new Set();
  let connections = 0;
  return new Promise((resolve) => {
    activate(urls, (client) => {
      connections++;
      let next = 0;
      const send = () => {
        while (receipts.has(next)) next++;
        if (next >= COUNT) return;
        const number = next++;
        const receipt = `${connections}-${number}`;
        client.watchForReceipt(receipt, () => {
          receipts.add(number);
          progress(receipts.size);
          if (receipts.size < COUNT) return send();
          client.deactivate().then(() => resolve(connections));
        });
        client.publish({ destination: queue, body: String(number), headers: { persistent: "true", receipt } });
      };
      for (let i = 0; i < WINDOW; i++) send();
    });
  });
}

// consume acknowledges each message, with a RECEIPT, until all have come. Of an ACK
// that a lost connection has left without one it is not known whether it counts.
async function consume(urls, queue) {
  const settled = new Set(); // ids of messages whose ACK has a RECEIPT
  const bodies = new Set();
  let connections = 0;
  let again = 0;
  let open = 0; // ACKs without a RECEIPT on this connection
  const client = activate(urls, (c) => {
    connections++;
    const connection = connections;
    open = 0;
    c.subscribe(queue, (m) => {
      const id = m.headers["message-id"];
      assert.ok(!settled.has(id), `${queue}: ${id} came again after the RECEIPT of its ACK`);
      if (bodies.has(m.body)) again++;
      bodies.add(m.body);
      const receipt = `ack-${connection}-${m.headers.ack}`;
      open++;
      c.watchForReceipt(receipt, () => {
        settled.add(id);
        open--;
      });
      m.ack({ receipt });
    }, { ack: "client-individual", "prefetch-count": "20" });
  });
  while (bodies.size < COUNT || open > 0) await sleep(20);
  await sleep(300);
  await client.deactivate();
  assert.equal(bodies.size, COUNT);
  return [connections, again];
}

setTimeout(() => {
  console.log("not all messages came in time");
  process.exit(1);
}, late).unref();

const progress = {};
let killed = false;
const note = (name) => (count) => {
  progress[name] = count;
  if (!killed && progress.one >= KILL_AT && progress.two >= KILL_AT) {
    killed = true;
    console.log("KILL");
  }
};
const [one, oneTaken, two, twoTaken] = await Promise.all([
  produce([standby], "/queue/one", note("one")),
  consume([standby], "/queue/one"),
  produce([primary, standby], "/queue/two", note("two")),
  consume([primary, standby], "/queue/two"),
]);
for (const connections of [one, oneTaken[0], two, twoTaken[0]]) {
  assert.ok(connections > 1, "a client was not cut off");
}
console.log(`connections ${one}, ${oneTaken}; ${two}, ${twoTaken}`);
process.exit(0);
