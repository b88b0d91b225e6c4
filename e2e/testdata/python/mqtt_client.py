"""Drives the MQTT frontend with an unmodified paho-mqtt.

usage: mqtt_client.py 3.1|3.1.1|5
"""

import os
import queue
import sys
import threading

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

VERSION = sys.argv[1]
V5 = VERSION == "5"
PROTOCOL = {"3.1": mqtt.MQTTv31, "3.1.1": mqtt.MQTTv311, "5": mqtt.MQTTv5}[VERSION]
PORT, RELAY = int(os.environ["MQTT_PORT"]), int(os.environ["MQTT_RELAY_PORT"])
WAIT = 10


def properties(kind, **values):
    p = Properties(kind)
    for name, value in values.items():
        setattr(p, name, value)
    return p


class Session:
    """One client, whose name is its id."""

    def __init__(self, name, kept=False, port=PORT, will=None):
        options = {"client_id": name, "protocol": PROTOCOL}
        if not V5:
            options["clean_session"] = not kept
        self.client = mqtt.Client(**options)
        self.messages, self.events = queue.Queue(), queue.Queue()
        self.client.on_message = lambda c, u, m: self.messages.put(m)
        self.client.on_connect = lambda c, u, flags, rc, p=None: self.events.put(("connect", rc, flags))
        self.client.on_subscribe = lambda c, u, mid, codes, p=None: self.events.put(("subscribe", mid, codes))
        self.client.on_unsubscribe = lambda c, u, mid, *a: self.events.put(("unsubscribe", mid, None))
        self.client.on_publish = lambda c, u, mid: self.events.put(("publish", mid, None))
        self.client.max_inflight_messages_set(20)
        if will:
            self.client.will_set(will[0], will[1], qos=1)
        self.kept, self.port = kept, port

    def open(self, clean=True):
        options = {}
        if V5:
            options["clean_start"] = clean
            options["properties"] = properties(PacketTypes.CONNECT, SessionExpiryInterval=3600 if self.kept else 0)
        self.client.connect("127.0.0.1", self.port, keepalive=30, **options)
        self.client.loop_start()
        _, code, flags = self.wait("connect")
        assert code == 0, f"CONNACK {code}"
        self.present = flags["session present"]
        return self

    def wait(self, kind):
        while True:
            event = self.events.get(timeout=WAIT)
            if event[0] == kind:
                return event

    def subscribe(self, topic, qos, **options):
        if options:
            code, mid = self.client.subscribe(topic, options=SubscribeOptions(qos=qos, **options))
        else:
            code, mid = self.client.subscribe(topic, qos)
        assert code == 0
        _, got, codes = self.wait("subscribe")
        assert got == mid
        return [getattr(c, "value", c) for c in codes]

    def publish(self, topic, payload, qos, **options):
        self.client.publish(topic, payload, qos, **options).wait_for_publish()

    def take(self, topic, payload, qos, retain=False):
        m = self.messages.get(timeout=WAIT)
        want = payload.encode() if isinstance(payload, str) else bytes(payload)
        got = (m.topic, m.payload, m.qos, bool(m.retain))
        assert got == (topic, want, qos, retain), f"got {got!r:.200}, want {(topic, want, qos, retain)!r:.200}"
        return m

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()

    def vanish(self):
        """Ends the connection without a word."""
        self.client.loop_stop()
        self.client.socket().shutdown(2)
        self.client.socket().close()


def contents():
    a, b = Session("sender").open(), Session("taker").open()
    assert b.subscribe("c/+/x", 2) == [2]
    bodies = ["", "ascii", "Zürich € 😀", "with\0null", bytes(range(256)), "x" * 100_000]
    for qos in 0, 1, 2:
        for n, body in enumerate(bodies):
            a.publish(f"c/{n}/x", body, qos)
        for n, body in enumerate(bodies):
            b.take(f"c/{n}/x", body, qos)
    # The lower of both levels holds; a filter that does not match brings nothing.
    assert b.subscribe("low/#", 0) == [0]
    a.publish("other", "no", 1)
    a.publish("low/a/b", "low", 2)
    b.take("low/a/b", "low", 0)
    b.client.unsubscribe("low/#")
    b.wait("unsubscribe")
    a.publish("low", "gone", 1)
    a.publish("c/last/x", "last", 1)
    b.take("c/last/x", "last", 1)
    for s in a, b:
        s.close()


def retained():
    a = Session("keeper").open()
    a.publish("r/1", "one", 1, retain=True)
    a.publish("r/2", "two", 2, retain=True)
    b = Session("late").open()
    b.subscribe("r/+", 2)
    got = {(m.topic, m.payload, m.qos, m.retain) for m in (b.messages.get(timeout=WAIT) for _ in range(2))}
    assert got == {("r/1", b"one", 1, 1), ("r/2", b"two", 2, 1)}, got
    a.publish("r/1", "news", 1, retain=True)
    b.take("r/1", "news", 1)
    a.publish("r/1", "", 1, retain=True)
    b.take("r/1", "", 1)
    c = Session("later").open()
    c.subscribe("r/#", 1)
    c.take("r/2", "two", 1, True)
    a.publish("r/2", "", 1, retain=True)
    c.take("r/2", "", 1)
    for s in a, b, c:
        s.close()


def sessions():
    name = "device"
    b = Session(name, kept=True, port=RELAY).open()
    b.subscribe("s/#", 2)
    b.close()
    a = Session("producer").open()
    for n in range(40):
        a.publish(f"s/{n % 2}", str(n), 1 + n % 2)
    a.close()
    print("RESTART", flush=True)
    assert sys.stdin.readline() == "\n"
    b = Session(name, kept=True, port=RELAY).open(clean=False)
    assert b.present or VERSION == "3.1", "the session is not there"
    # The client hands out a message of QoS 2 at its PUBREL: behind later ones of QoS 1.
    got = [[], []]
    for _ in range(40):
        m = b.messages.get(timeout=WAIT)
        got[m.qos - 1].append((m.topic, int(m.payload)))
    assert got == [[(f"s/{n}", i) for i in range(n, 40, 2)] for n in (0, 1)], got
    assert b.messages.empty()
    b.close()
    # A clean start does away with it.
    b = Session(name, port=RELAY).open()
    assert not b.present
    b.close()


def wills():
    b = Session("watcher", port=RELAY).open()
    b.subscribe("w/#", 1)
    a = Session("mortal", port=RELAY, will=("w/mortal", "gone")).open()
    a.vanish()
    b.take("w/mortal", "gone", 1)
    a = Session("mortal", port=RELAY, will=("w/mortal", "gone")).open()
    a.close()
    a = Session("herald", port=RELAY).open()
    a.publish("w/after", "x", 1)
    b.take("w/after", "x", 1)
    a.close()
    b.close()


def takeover():
    first = Session("twin", port=RELAY)
    first.client.reconnect_delay_set(3600, 3600)
    first.open()
    lost = threading.Event()
    first.client.on_disconnect = lambda *a: lost.set()
    second = Session("twin", port=RELAY).open()
    assert lost.wait(WAIT), "the first connection lives on"
    second.subscribe("t", 1)
    second.publish("t", "self", 1)
    second.take("t", "self", 1)
    second.close()
    first.client.loop_stop()


def five():
    a, b = Session("five-a", port=RELAY).open(), Session("five-b", port=RELAY).open()
    b.subscribe("v/#", 1)
    pairs = [("k", "1"), ("k", "2"), ("", "empty"), ("ü", "")]
    a.publish("v/p", "x", 1, properties=properties(
        PacketTypes.PUBLISH, ContentType="text/plain", ResponseTopic="v/answer", CorrelationData=b"\0\xff",
        UserProperty=pairs, PayloadFormatIndicator=1, MessageExpiryInterval=60))
    p = b.take("v/p", "x", 1).properties
    assert p.ContentType == "text/plain" and p.ResponseTopic == "v/answer" and p.CorrelationData == b"\0\xff", p
    assert p.UserProperty == pairs and p.PayloadFormatIndicator == 1 and 0 < p.MessageExpiryInterval <= 60, p
    # Not to oneself, and RETAIN as it was published.
    a.subscribe("v/#", 1, noLocal=True, retainAsPublished=True)
    a.publish("v/local", "x", 1)
    b.take("v/local", "x", 1)
    b.publish("v/other", "y", 1, retain=True)
    b.take("v/other", "y", 1)
    a.take("v/other", "y", 1, True)
    b.publish("v/other", "", 1, retain=True)
    a.take("v/other", "", 1, True)
    # A group shares its messages.
    group = [Session(f"member-{n}", port=RELAY).open() for n in range(3)]
    for m in group:
        m.subscribe("$share/g/work", 1)
    for n in range(30):
        a.publish("work", str(n), 1)
    got = []
    while len(got) < 30:
        for m in group:
            while not m.messages.empty():
                got.append(int(m.messages.get().payload))
    assert sorted(got) == list(range(30)), got
    for s in group + [a, b]:
        s.close()


contents()
retained()
sessions()
wills()
takeover()
if V5:
    five()
print("ok")
