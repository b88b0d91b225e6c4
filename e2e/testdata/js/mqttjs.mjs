// Drives the MQTT frontend with an unmodified MQTT.js.
//
// usage: mqttjs.mjs tcp|ws 4|5
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import mqtt from "mqtt";

const [wire, version] = [process.argv[2], Number(process.argv[3])];
const [first, relay] = wire === "ws" ? [process.env.MQTT_WS, process.env.MQTT_RELAY_WS]
  : [`mqtt://127.0.0.1:${process.env.MQTT_PORT}`, `mqtt://127.0.0.1:${process.env.MQTT_RELAY_PORT}`];

// within fails if promise does not come in time.
function within(promise, what) {
  const late = new Promise((_, reject) => setTimeout(reject, 10_000, new Error(`no ${what} in time`)).unref());
  return Promise.race([promise, late]);
}

class Session {
  constructor(clientId, options = {}) {
    this.messages = [];
    this.takers = [];
    this.options = { clientId, protocolVersion: version, reconnectPeriod: 0, url: first, ...options };
  }

  async open() {
    const { url, ...options } = this.options;
    this.client = mqtt.connect(url, options);
    const connected = new Promise((resolve, reject) => {
      this.client.once("connect", resolve);
      this.client.once("error", reject);
    });
    this.client.on("message", (topic, payload, packet) => {
      const taker = this.takers.shift();
      const m = { ...packet, topic, payload: Buffer.from(payload) };
      taker ? taker(m) : this.messages.push(m);
    });
    this.connack = await within(connected, "CONNACK");
    return this;
  }

  async subscribe(filter, qos, options = {}) {
    const granted = await within(this.client.subscribeAsync(filter, { qos, ...options }), "SUBACK");
    assert.equal(granted[0].qos, qos);
  }

  publish(topic, payload, qos, options = {}) {
    return within(this.client.publishAsync(topic, payload, { qos, ...options }), "acknowledgement");
  }

  next(what) {
    if (this.messages.length > 0) return this.messages.shift();
    return within(new Promise((resolve) => this.takers.push(resolve)), what);
  }

  async take(topic, payload, qos, retain = false) {
    const m = await this.next(`${topic} ${String(payload).slice(0, 20)}`);
    assert.equal(m.topic, topic);
    assert.deepEqual(m.payload, Buffer.from(payload));
    assert.deepEqual([m.qos, m.retain], [qos, retain]);
    return m;
  }

  close() {
    return within(this.client.endAsync(), "end");
  }
}

async function contents() {
  const [a, b] = [await new Session("js-a").open(), await new Session("js-b").open()];
  await b.subscribe("c/+/x", 2);
  const bodies = ["", "ascii", "Zürich € 😀", "with\0null", Buffer.from([...Array(256).keys()]), "x".repeat(100_000)];
  for (const qos of [0, 1, 2]) {
    for (const [n, body] of bodies.entries()) await a.publish(`c/${n}/x`, body, qos);
    for (const [n, body] of bodies.entries()) await b.take(`c/${n}/x`, body, qos);
  }
  await a.publish("r/1", "kept", 1, { retain: true });
  await b.subscribe("r/#", 1);
  await b.take("r/1", "kept", 1, true);
  await a.publish("r/1", "", 1, { retain: true });
  await b.take("r/1", "", 1);
  await Promise.all([a.close(), b.close()]);
}

async function sessions() {
  const kept = version === 5 ? { properties: { sessionExpiryInterval: 3600 } } : { clean: false };
  const options = { url: relay, ...kept };
  let b = await new Session("js-device", options).open();
  await b.subscribe("s/#", 2);
  await b.close();
  const a = await new Session("js-producer").open();
  await Promise.all(Array.from({ length: 40 }, (_, n) => a.publish(`s/${n % 2}`, String(n), 1 + (n % 2))));
  await a.close();
  console.log("RESTART");
  await new Promise((resolve) => createInterface(process.stdin).once("line", resolve));
  b = await new Session("js-device", { ...options, clean: false }).open();
  assert.equal(b.connack.sessionPresent, true);
  // The client hands out a message of QoS 2 at its PUBREL: behind later ones of QoS 1.
  const got = { "s/0": [], "s/1": [] };
  for (let n = 0; n < 40; n++) {
    const m = await b.next("message");
    got[m.topic].push([m.qos, String(m.payload)]);
  }
  for (const n of [0, 1]) assert.deepEqual(got[`s/${n}`], Array.from({ length: 20 }, (_, i) => [1 + n, String(2 * i + n)]));
  await b.close();
}

async function wills() {
  const b = await new Session("js-watcher", { url: relay }).open();
  await b.subscribe("w/#", 1);
  const a = await new Session("js-mortal", { url: relay, will: { topic: "w/mortal", payload: "gone", qos: 1 } }).open();
  a.client.stream.destroy();
  await b.take("w/mortal", "gone", 1);
  await b.close();
}

async function five() {
  const a = await new Session("js-five-a", { url: relay, properties: { topicAliasMaximum: 5 }, autoAssignTopicAlias: true }).open();
  const b = await new Session("js-five-b", { url: relay, properties: { topicAliasMaximum: 5, receiveMaximum: 2 } }).open();
  await b.subscribe("v/#", 2, { properties: { subscriptionIdentifier: 7 } });
  const properties = {
    contentType: "text/plain", responseTopic: "v/answer", correlationData: Buffer.from([0, 255]),
    userProperties: { k: ["1", "2"], ü: "x" }, payloadFormatIndicator: true, messageExpiryInterval: 60,
  };
  await a.publish("v/p", "x", 2, { properties });
  const m = await b.take("v/p", "x", 2);
  assert.equal(m.properties.contentType, "text/plain");
  assert.equal(m.properties.responseTopic, "v/answer");
  assert.deepEqual(m.properties.correlationData, Buffer.from([0, 255]));
  assert.deepEqual({ ...m.properties.userProperties }, { k: ["1", "2"], ü: "x" });
  assert.equal(m.properties.subscriptionIdentifier, 7);
  for (let n = 0; n < 30; n++) await a.publish(`v/${n % 2}`, String(n), 1);
  for (let n = 0; n < 30; n++) await b.take(`v/${n % 2}`, String(n), 1);
  await Promise.all([a.close(), b.close()]);
}

await contents();
await sessions();
await wills();
if (version === 5) await five();
console.log("ok");
process.exit(0);
