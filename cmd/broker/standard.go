package main

import "github.com/leasemq/broker"

// standard lists the kinds of frontend that this binary has. A build with more
// or fewer changes this file alone.
func standard() []broker.Kind {
	return []broker.Kind{
		broker.SQS(),
		broker.STOMP(),
		broker.MQTT(),
	}
}
