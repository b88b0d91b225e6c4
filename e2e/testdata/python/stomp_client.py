"""Drives the STOMP frontend with an unmodified stomp.py.

usage: stomp_client.py VERSION
"""

import os
import queue
import sys
import time
import uuid

import stomp

VERSION = sys.argv[1]
CLASS = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}[VERSION]


class Frames(stomp.ConnectionListener):
    """Keeps what arrives."""

    def __init__(self):
        self.messages, self.receipts, self.errors = queue.Queue(), queue.Queue(), queue.Queue()
        self.connected = None
        self.lost = False

    def on_connected(self, frame):
        self.connected = frame.headers

    def on_message(self, frame):
        self.messages.put(frame)

    def on_receipt(self, frame):
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame):
        self.errors.put(frame)

    def on_disconnected(self):
        self.lost = True


class Session:
    def __init__(self, port=os.environ["STOMP_PORT"], **options):
        self.frames = Frames()
        self.conn = CLASS([("127.0.0.1", int(port))], **options)
        self.conn.set_listener("", self.frames)
        self.conn.connect("user", "p:a\\ss", wait=True)

    def wait(self, receipt):
        got = self.frames.receipts.get(timeout=10)
        assert got == receipt, f"receipt {got}, want {receipt}"

    def send(self, destination, body, **headers):
        receipt = uuid.uuid4().hex
        self.conn.send(destination, body, receipt=receipt, **headers)
        self.wait(receipt)

    def subscribe(self, destination, ack, **headers):
        self.conn.subscribe(destination, id="sub-" + destination, ack=ack, receipt="subscribed", **headers)
        self.wait("subscribed")

    def next(self):
        return self.frames.messages.get(timeout=10)

    def bodies(self, count):
        return [self.next().body for _ in range(count)]

    def nothing(self, seconds=0.3):
        time.sleep(seconds)
        assert self.frames.messages.empty(), self.frames.messages.get().body

    def settle(self, verb, frame, **extra):
        extra["receipt"] = uuid.uuid4().hex
        if VERSION == "1.2":
            getattr(self.conn, verb)(frame.headers["ack"], **extra)
        elif VERSION == "1.1":
            getattr(self.conn, verb)(frame.headers["message-id"], frame.headers["subscription"], **extra)
        else:
            self.conn.ack(frame.headers["message-id"], **extra)
        self.wait(extra["receipt"])

    def close(self):
        self.conn.disconnect(receipt="bye")
        for _ in range(1000):
            if not self.frames.receipts.empty():
                break
            time.sleep(0.01)
        self.wait("bye")
        assert self.frames.errors.empty(), self.frames.errors.get().headers


def test_ack_modes():
    s = Session()
    for mode in ("auto", "client", "client-individual"):
        for i in range(4):
            s.send("/queue/" + mode, str(i))
    s.subscribe("/queue/auto", "auto")
    assert s.bodies(4) == list("0123")
    s.close()
    s = Session()
    s.subscribe("/queue/client", "client")
    got = [s.next() for _ in range(4)]
    assert [m.headers["redelivered"] for m in got] == ["false"] * 4
    s.settle("ack", got[2])  # 0, 1 and 2
    s.close()
    s = Session()
    s.subscribe("/queue/client-individual", "client-individual")
    got = [s.next() for _ in range(4)]
    s.settle("ack", got[2])
    s.close()
    s = Session()
    for mode, left in (("auto", ""), ("client", "3"), ("client-individual", "013")):
        s.subscribe("/queue/" + mode, "auto")
        got = [s.next() for _ in left]
        assert [m.body for m in got] == list(left), (mode, [m.body for m in got])
        assert all(m.headers["redelivered"] == "true" for m in got)
    s.nothing()
    s.close()


def test_nack():
    if VERSION == "1.0":
        return  # its class has none
    s = Session()
    s.send("/queue/nack", "again")
    s.subscribe("/queue/nack", "client-individual")
    m = s.next()
    s.settle("nack", m)
    m = s.next()
    assert (m.body, m.headers["redelivered"], m.headers["JMSXDeliveryCount"]) == ("again", "true", "2")
    s.settle("nack", m, requeue="false")  # there is no dead-letter queue
    s.nothing()
    s.close()


def test_transactions():
    s = Session()
    s.send("/queue/in", "a")
    s.subscribe("/queue/in", "client-individual")
    m = s.next()
    s.conn.begin("t1")
    s.send("/queue/out", "dropped", transaction="t1")
    s.settle("ack", m, transaction="t1")
    s.conn.abort("t1", receipt="aborted")
    s.wait("aborted")
    s.conn.begin("t2")
    s.send("/queue/out", "kept", transaction="t2")
    s.settle("ack", m, transaction="t2")
    s.conn.commit("t2", receipt="committed")
    s.wait("committed")
    s.close()
    s = Session()
    s.subscribe("/queue/in", "auto")
    s.subscribe("/queue/out", "auto")
    assert s.next().body == "kept"
    s.nothing()
    s.close()


def test_contents():
    s = Session()
    headers = {"plain": "x", "umlaut": "Zürich €", "empty": ""}
    if VERSION != "1.0":
        headers.update({"colon": "a:b:c", "back": "\\slash\\n", "lines": "two\nlines"})
    if VERSION == "1.2":
        headers["return"] = "a\r\nb"
    bodies = ["", "ascii", "Zürich € 😀", "with\0null", "\n\nlines\r\n", "x" * 1_000_000]
    s.subscribe("/queue/contents", "auto")
    for body in bodies:
        s.send("/queue/contents", body, content_type="text/plain;charset=utf-8", headers=headers)
        m = s.next()
        assert m.body == body, f"{m.body!r:.100}"
        assert m.headers["content-type"] == "text/plain;charset=utf-8"
        assert m.headers["destination"] == "/queue/contents"
        for name, value in headers.items():
            assert m.headers.get(name, "") == value, (name, m.headers)
    s.close()
    s = Session(auto_decode=False)
    s.subscribe("/queue/contents", "auto")
    s.send("/queue/contents", bytes(range(256)))
    got = s.next().body
    assert got == bytes(range(256)), got
    s.close()


def test_prefetch():
    s = Session()
    for i in range(5):
        s.send("/queue/prefetch", str(i))
    s.subscribe("/queue/prefetch", "client-individual", **{"prefetch-count": "2"})
    first, second = s.next(), s.next()
    s.nothing()
    s.settle("ack", second)
    assert s.next().body == "2"
    s.nothing(0.1)
    s.settle("ack", first)
    assert s.next().body == "3"
    s.close()


def test_heart_beats():
    if VERSION == "1.0":
        return
    s = Session(heartbeats=(1000, 1000))
    assert s.frames.connected["heart-beat"] == "1000,1000", s.frames.connected
    time.sleep(3.2)
    assert s.conn.is_connected() and not s.frames.lost
    s.close()


def test_restart():
    s = Session(port=os.environ["STOMP_RELAY_PORT"])
    for i in range(3):
        s.send("/queue/restart", str(i))
    s.subscribe("/queue/restart", "client-individual")
    got = [s.next() for _ in range(3)]
    s.settle("ack", got[1])
    print("RESTART", flush=True)
    sys.stdin.readline()
    assert s.frames.lost
    s = Session(port=os.environ["STOMP_RELAY_PORT"])
    s.subscribe("/queue/restart", "client-individual")
    assert s.bodies(2) == ["0", "2"]
    s.nothing()
    s.close()


for name, test in list(globals().items()):
    if name.startswith("test_"):
        began = time.monotonic()
        test()
        print(f"{name} passed in {time.monotonic() - began:.1f} s", flush=True)
