// Drives the STOMP frontend with an unmodified stompit over TCP.
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import stompit from "stompit";

function within(promise, what) {
  const late = new Promise((_, reject) => setTimeout(reject, 10_000, new Error(`no ${what} in time`)).unref());
  return Promise.race([promise, late]);
}

class Session {
  constructor(client) {
    this.messages = [];
    this.takers = [];
    this.client = client;
    this.lost = new Promise((resolve) => client.once("error", resolve));
  }

  static open(heartBeat = "0,0", port = process.env.STOMP_PORT) {
    const opened = new Promise((resolve, reject) => {
      const connectHeaders = { host: "/", login: "user", passcode: "secret", "heart-beat": heartBeat };
      stompit.connect({ host: "127.0.0.1", port, connectHeaders }, (err, client) => (err ? reject(err) : resolve(client)));
    });
    return within(opened, "CONNECTED").then((client) => new Session(client));
  }

  receipt(send) {
    return within(new Promise((resolve) => send({ onReceipt: resolve })), "RECEIPT");
  }

  send(destination, body, headers = {}) {
    return this.receipt((r) => this.client.send({ destination, "content-length": Buffer.byteLength(body), ...headers }, r).end(body));
  }

  // subscribe gives no receipt with this client: its frames are in order.
  subscribe(destination, ack, headers = {}) {
    this.client.subscribe({ destination, ack, ...headers }, (err, message) => {
      if (err) return;
      const parts = [];
      message.on("data", (part) => parts.push(part));
      message.on("end", () => {
        message.bytes = Buffer.concat(parts);
        const taker = this.takers.shift();
        if (taker) taker(message);
        else this.messages.push(message);
      });
    });
  }

  ack(message) {
    return this.receipt((r) => this.client.ack(message, {}, r));
  }

  nack(message, headers = {}) {
    return this.receipt((r) => this.client.nack(message, headers, r));
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
    return (await this.take(count)).map((m) => m.bytes.toString());
  }

  async nothing(ms = 300) {
    await sleep(ms);
    assert.deepEqual(this.messages.map((m) => m.bytes.toString()), []);
  }

  close() {
    return within(new Promise((resolve, reject) => this.client.disconnect((err) => (err ? reject(err) : resolve()))), "end");
  }
}

const tests = {
  async ackModes() {
    const modes = ["auto", "client", "client-individual"];
    let s = await Session.open();
    for (const mode of modes) for (let i = 0; i < 4; i++) await s.send("/queue/" + mode, String(i));
    s.subscribe("/queue/auto", "auto");
    assert.deepEqual(await s.bodies(4), ["0", "1", "2", "3"]);
    await s.close();
    for (const mode of modes.slice(1)) {
      s = await Session.open();
      s.subscribe("/queue/" + mode, mode);
      const got = await s.take(4);
      await s.ack(got[2]);
      await s.close();
    }
    s = await Session.open();
    for (const [mode, left] of [["auto", []], ["client", ["3"]], ["client-individual", ["0", "1", "3"]]]) {
      s.subscribe("/queue/" + mode, "auto");
      assert.deepEqual(await s.bodies(left.length), left);
    }
    await s.nothing();
    await s.close();
  },

  async nack() {
    const s = await Session.open();
    await s.send("/queue/nack", "again");
    s.subscribe("/queue/nack", "client-individual");
    await s.nack(await s.next());
    const m = await s.next();
    assert.equal(m.headers.redelivered, "true");
    assert.equal(m.headers.JMSXDeliveryCount, "2");
    await s.nack(m, { requeue: "false" }); // there is no dead-letter queue
    await s.nothing();
    await s.close();
  },

  async transactions() {
    let s = await Session.open();
    await s.send("/queue/in", "a");
    s.subscribe("/queue/in", "client-individual");
    const m = await s.next();
    let tx = s.client.begin();
    tx.send({ destination: "/queue/out" }).end("dropped");
    s.client.ack(m, { transaction: tx.id });
    await s.receipt((r) => tx.abort(r));
    tx = s.client.begin();
    tx.send({ destination: "/queue/out" }).end("kept");
    s.client.ack(m, { transaction: tx.id });
    await s.receipt((r) => tx.commit(r));
    await s.close();
    s = await Session.open();
    s.subscribe("/queue/in", "auto");
    s.subscribe("/queue/out", "auto");
    assert.deepEqual(await s.bodies(1), ["kept"]);
    await s.nothing();
    await s.close();
  },

  async contents() {
    const s = await Session.open();
    const headers = {
      plain: "x", umlaut: "Zürich €", "colon:name": "a:b", back: "\\slash\\n", lines: "two\nlines", return: "a\r\nb", empty: "",
      "content-type": "text/plain",
    };
    const all = Buffer.from(Uint8Array.from({ length: 256 }, (_, i) => i));
    const bodies = ["", "ascii", "Zürich € 😀", "with\0null", "\n\nlines\r\n", "x".repeat(1_000_000), all];
    s.subscribe("/queue/contents", "auto");
    for (const body of bodies) {
      await s.send("/queue/contents", body, headers);
      const m = await s.next();
      assert.ok(m.bytes.equals(Buffer.from(body)), m.bytes.toString().slice(0, 100));
      assert.equal(m.headers.destination, "/queue/contents");
      for (const [name, value] of Object.entries(headers)) assert.equal(m.headers[name], value, name);
    }
    await s.send("/queue/contents", "", { "content-length": undefined }); // ends at the first NUL
    assert.deepEqual(await s.bodies(1), [""]);
    await s.close();
  },

  async prefetch() {
    for (const [queue, headers] of [["credit", { credit: "2" }], ["window", { "consumer-window-size": "0" }]]) {
      const s = await Session.open();
      const most = queue === "credit" ? 2 : 1;
      for (let i = 0; i < 5; i++) await s.send("/queue/" + queue, String(i));
      s.subscribe("/queue/" + queue, "client-individual", headers);
      const got = await s.take(most);
      await s.nothing();
      await s.ack(got[0]);
      assert.deepEqual(await s.bodies(1), [String(most)]);
      await s.nothing(100);
      await s.close();
    }
  },

  async heartBeats() {
    const s = await Session.open("1000,1000");
    await sleep(3200);
    await s.send("/queue/beats", "alive");
    await s.close();
  },

  async restart() {
    let s = await Session.open("0,0", process.env.STOMP_RELAY_PORT);
    for (let i = 0; i < 3; i++) await s.send("/queue/restart", String(i));
    s.subscribe("/queue/restart", "client-individual");
    const got = await s.take(3);
    await s.ack(got[1]);
    console.log("RESTART");
    const lines = createInterface({ input: process.stdin });
    await within(new Promise((resolve) => lines.once("line", resolve)), "broker");
    lines.close();
    await within(s.lost, "error");
    s = await Session.open("0,0", process.env.STOMP_RELAY_PORT);
    s.subscribe("/queue/restart", "client-individual");
    assert.deepEqual(await s.bodies(2), ["0", "2"]);
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
