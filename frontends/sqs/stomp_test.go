package sqs

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/leasemq/broker/core"
	"github.com/leasemq/broker/frontends/frontendtest"
)

// The content type of a message from STOMP is a message attribute. Other
// protocols have their own ways to tell it.
func TestContentTypeOfSTOMP(t *testing.T) {
	e := frontendtest.NewEngine(t)
	c := newSDKOf(t, e, Options{})
	url := createSDK(t, c, "q", nil)
	attributes := []core.Attribute{{Name: "k", Value: []byte("v")}}
	for _, m := range []core.Message{
		{Body: []byte("stomp"), Origin: core.OriginSTOMP, ContentType: "text/plain", Attributes: attributes},
		{Body: []byte("none"), Origin: core.OriginSTOMP, Attributes: attributes},
		{Body: []byte("mqtt"), Origin: core.OriginMQTT, ContentType: "text/plain", Attributes: attributes},
	} {
		m.Delay = -1
		if _, err := e.Client(core.Principal{}).Publish(t.Context(), "q", []core.Message{m}, nil); err != nil {
			t.Fatal(err)
		}
		got := must[*sdk.ReceiveMessageOutput](t)(c.ReceiveMessage(t.Context(), &sdk.ReceiveMessageInput{
			QueueUrl: url, MessageAttributeNames: []string{"All"},
		}))
		if len(got.Messages) != 1 {
			t.Fatalf("%s: received %d messages", m.Body, len(got.Messages))
		}
		shown := got.Messages[0].MessageAttributes
		if aws.ToString(shown["k"].StringValue) != "v" {
			t.Errorf("%s: attributes %v", m.Body, shown)
		}
		v, there := shown["content-type"]
		if want := string(m.Body) == "stomp"; there != want || want && aws.ToString(v.StringValue) != "text/plain" {
			t.Errorf("%s: content-type is %q, there: %v", m.Body, aws.ToString(v.StringValue), there)
		}
	}
}
