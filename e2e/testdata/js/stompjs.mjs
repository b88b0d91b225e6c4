// Drives the STOMP frontend with an unmodified @stomp/stompjs over WebSocket.
//
// usage: stompjs.mjs text|binary
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "@stomp/stompjs";
import WebSocket from "ws";

globalThis.WebSocket = WebSocket;
const binary = process.argv[2] === "binary";

// within fails if promise does not come in time.
function within(promise, what) {
  const late = new Promise((_, reject) => setTimeout(reject, 10_000, new Error(`no ${what} in time`)).unref());
  return Promise.race([promise, late]);
}

class Session {
  constructor(options = {}) {
    this.messages = [];
    this.takers = [];
    this.connects = 0;
    this.errors = [];
    this.client = new Client({
      brokerURL: process.env.STOMP_WS, forceBinaryWSFrames: binary, reconnectDelay: 0,
      heartbeatIncoming: 0, heartbeatOutgoing: 0,
      onStompError: (frame) => this.errors.push(frame),
      ...options,
      onConnect: (frame) => {
        this.connects++;
        this.connected = frame.headers;
        options.onConnect?.(this);
        this.opened?.();
      },
    });
  }

  async open() {
    const opened = new Promise((resolve) => (this.opened = resolve));
    this.client.activate();
    await within(opened, "CONNECTED");
    return this;
  }

  // receipt waits for the RECEIPT of what send asks for.
  async receipt(send) {
    const receipt = randomUUID();
    const told = new Promise((resolve) => this.client.watchForReceipt(receipt, resolve));
    send({ receipt });
    await within(told, "RECEIPT");
  }

  send(destination, body, headers = {}) {
    const content = typeof body === "string" ? { body } : { binaryBody: body };
    return this.receipt((r) => this.client.publish({ destination, ...content, headers: { ...headers, ...r } }));
  }

  subscribe(destination, ack, headers = {}) {
    return this.receipt((r) => this.client.subscribe(destination, (m) => this.arrived(m), { ack, ...headers, ...r }));
  }

  arrived(message) {
    const taker = this.takers.shift();
    if (taker) taker(message);
    else this.messages.push(message);
  }

  next() {
    if (this.messages.length > 0) return Promise.resolve(this.messages.shift());
    return within(new Promise((resolve) => this.takers.push(resolve)), "MESSAGE");
  }

  async take(count) {
    const got = [];
    for (let i = 0; i < count; i++) got.push(await this.next());
    return got;
  }

  async bodies(count) {
    return (await this.take(count)).map((m) => m.body);
  }

  async nothing(ms = 300) {
    await sleep(ms);
    assert.deepEqual(this.messages.map((m) => m.body), []);
  }

  async close() {
    await within(this.client.deactivate(), "end");
    assert.deepEqual(this.errors, []);
  }
}

const tests = {
  async ackModes() {
    const modes = ["auto", "client", "client-individual"];
    let s = await new Session().open();
    for (const mode of modes) for (let i = 0; i < 4; i++) await s.send("/queue/" + mode, String(i));
    await s.subscribe("/queue/auto", "auto");
    assert.deepEqual(await s.bodies(4), ["0", "1", "2", "3"]);
    await s.close();
    for (const mode of modes.slice(1)) {
      s = await new Session().open();
      await s.subscribe("/queue/" + mode, mode);
      const got = await s.take(4);
      await s.receipt((r) => got[2].ack(r));
      await s.close();
    }
    s = await new Session().open();
    for (const [mode, left] of [["auto", []], ["client", ["3"]], ["client-individual", ["0", "1", "3"]]]) {
      await s.subscribe("/queue/" + mode, "auto");
      assert.deepEqual(await s.bodies(left.length), left);
    }
    await s.nothing();
    await s.close();
  },

  async nack() {
    const s = await new Session().open();
    await s.send("/queue/nack", "again");
    await s.subscribe("/queue/nack", "client-individual");
    await (await s.next()).nack();
    const m = await s.next();
    assert.equal(m.headers.redelivered, "true");
    assert.equal(m.headers.JMSXDeliveryCount, "2");
    await s.receipt((r) => m.nack({ requeue: "false", ...r })); // there is no dead-letter queue
    await s.nothing();
    await s.close();
  },

  async transactions() {
    let s = await new Session().open();
    await s.send("/queue/in", "a");
    await s.subscribe("/queue/in", "client-individual");
    const m = await s.next();
    let tx = s.client.begin();
    await s.send("/queue/out", "dropped", { transaction: tx.id });
    m.ack({ transaction: tx.id });
    tx.abort();
    tx = s.client.begin();
    await s.send("/queue/out", "kept", { transaction: tx.id });
    m.ack({ transaction: tx.id });
    tx.commit();
    await s.close();
    s = await new Session().open();
    await s.subscribe("/queue/in", "auto");
    await s.subscribe("/queue/out", "auto");
    assert.deepEqual(await s.bodies(1), ["kept"]);
    await s.nothing();
    await s.close();
  },

  async contents() {
    const s = await new Session().open();
    const headers = {
      plain: "x", umlaut: "Zürich €", colon: "a:b:c", back: "\\slash\\", lines: "two\nlines", return: "a\r\nb", empty: "",
      "content-type": "text/plain",
    };
    const all = Uint8Array.from({ length: 256 }, (_, i) => i);
    const bodies = ["", "ascii", "Zürich € 😀", "with\0null", "\n\nlines\r\n", "x".repeat(1_000_000), all];
    await s.subscribe("/queue/contents", "auto");
    for (const body of bodies) {
      await s.send("/queue/contents", body, headers);
      const m = await s.next();
      if (typeof body === "string") assert.equal(m.body, body);
      else assert.deepEqual([...m.binaryBody], [...body]);
      assert.equal(m.headers.destination, "/queue/contents");
      for (const [name, value] of Object.entries(headers)) assert.equal(m.headers[name], value, name);
    }
    await s.close();
  },

  async prefetch() {
    const s = await new Session().open();
    for (let i = 0; i < 5; i++) await s.send("/queue/prefetch", String(i));
    await s.subscribe("/queue/prefetch", "client-individual", { "prefetch-count": "2" });
    const [first, second] = await s.take(2);
    await s.nothing();
    second.ack();
    assert.deepEqual(await s.bodies(1), ["2"]);
    await s.nothing(100);
    first.ack();
    assert.deepEqual(await s.bodies(1), ["3"]);
    await s.close();
  },

  async heartBeats() {
    const s = await new Session({ heartbeatIncoming: 1000, heartbeatOutgoing: 1000 }).open();
    assert.equal(s.connected["heart-beat"], "1000,1000");
    await sleep(3200);
    await s.send("/queue/beats", "alive");
    assert.equal(s.connects, 1);
    await s.close();
  },

  // The client connects again by itself.
  async restart() {
    const s = new Session({
      brokerURL: process.env.STOMP_RELAY_WS, reconnectDelay: 50,
      onConnect: (session) => session.subscribe("/queue/restart", "client-individual"),
    });
    await s.open();
    for (let i = 0; i < 3; i++) await s.send("/queue/restart", String(i));
    const got = await s.take(3);
    await s.receipt((r) => got[1].ack(r));
    console.log("RESTART");
    const lines = createInterface({ input: process.stdin });
    await within(new Promise((resolve) => lines.once("line", resolve)), "broker");
    lines.close();
    assert.deepEqual(await s.bodies(2), ["0", "2"]);
    assert.ok(s.connects > 1);
    await s.nothing();
    await s.close();
  },
};

for (const [name, test] of Object.entries(tests)) {
  const began = Date.now();
  await test();
  console.log(`${name} passed in ${(Date.now() - began) / 1000} s`);
}
process.exit(0);
