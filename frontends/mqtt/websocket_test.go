package mqtt

import (
	"context"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/mochi-mqtt/server/v2/packets"
)

func dialWebSocket(t *testing.T, address string) *websocket.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ws, res, err := websocket.Dial(ctx, "ws://"+address+"/mqtt", &websocket.DialOptions{Subprotocols: []string{"mqtt"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Header.Get("Sec-WebSocket-Protocol"); got != "mqtt" {
		t.Errorf("[MQTT-6.0.0-4] the subprotocol is %q", got)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

// A client over WebSocket publishes and receives; messages of WebSocket are cut
// anywhere.
func TestWebSocket(t *testing.T) {
	address, _ := listenAndServe(t, Options{}, (*Server).ServeWebSocket)
	ws := dialWebSocket(t, address)
	p := newPeer(websocket.NetConn(t.Context(), ws, websocket.MessageBinary))
	if err := p.connect("v=5 id=w clean"); err != nil {
		t.Fatal(err)
	}
	version := byte(5)
	b, err := encodePackets("SUBSCRIBE 1 t:qos=1; PUBLISH t qos=1 id=1 p=hello", &version)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b { // [MQTT-6.0.0-2]
		if _, err := p.conn.Write(b[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if pk, err := p.await(packets.Publish, 30*time.Second); err != nil || string(pk.Payload) != "hello" {
		t.Errorf("got %q, error %v", pk.Payload, err)
	}
}

// [MQTT-6.0.0-1] text is not spoken.
func TestWebSocketTextCloses(t *testing.T) {
	address, _ := listenAndServe(t, Options{}, (*Server).ServeWebSocket)
	ws := dialWebSocket(t, address)
	if err := ws.Write(t.Context(), websocket.MessageText, []byte("\x10\x0e\x00\x04MQTT\x04\x02\x00\x00\x00\x02ab")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, _, err := ws.Read(ctx); websocket.CloseStatus(err) != websocket.StatusUnsupportedData {
		t.Errorf("got %v", err)
	}
}
