package stomp

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/leasemq/broker/frontends/stomp/frame"
)

// BenchmarkRoundTrip sends with a receipt on every frame, receives and
// acknowledges, with a window of 100, over TCP on one connection each.
func BenchmarkRoundTrip(b *testing.B) {
	address, _ := listenAndServe(b, Options{})
	producer, err := dialPeer(address)
	if err != nil {
		b.Fatal(err)
	}
	defer producer.HangUp()
	consumer, err := dialPeer(address)
	if err != nil {
		b.Fatal(err)
	}
	defer consumer.HangUp()
	if err := consumer.do(&frame.Frame{Command: frame.Subscribe, Headers: headers("id", "1", "destination", "/queue/q", "ack", "client-individual")}); err != nil {
		b.Fatal(err)
	}
	body := bytes.Repeat([]byte("x"), 200)
	b.ReportAllocs()
	b.ResetTimer()
	consumed := make(chan error, 1)
	go func() {
		var out []byte
		for range b.N {
			f, err := consumer.reader.Read()
			if err != nil {
				consumed <- err
				return
			}
			out = frame.Append(out, frame.V12, &frame.Frame{Command: frame.Ack, Headers: headers("id", f.Get("ack"))})
			if consumer.reader.Buffered() == 0 {
				if _, err := consumer.conn.Write(out); err != nil {
					consumed <- err
					return
				}
				out = out[:0]
			}
		}
		_, err := consumer.conn.Write(out)
		consumed <- err
	}()
	window := make(chan struct{}, 100)
	go func() {
		for range b.N {
			if _, err := producer.reader.Read(); err != nil {
				return
			}
			<-window
		}
	}()
	var out []byte
	for i := range b.N {
		select {
		case window <- struct{}{}:
		default:
			if _, err := producer.conn.Write(out); err != nil {
				b.Fatal(err)
			}
			out = out[:0]
			window <- struct{}{}
		}
		out = frame.Append(out, frame.V12, &frame.Frame{
			Command: frame.Send, Headers: headers("destination", "/queue/q", "receipt", strconv.Itoa(i)), Body: body,
		})
	}
	if _, err := producer.conn.Write(out); err != nil {
		b.Fatal(err)
	}
	if err := <-consumed; err != nil {
		b.Fatal(err)
	}
}
