// Package e2e tests the built binary from outside: with the clients that users
// have, unmodified, and with what goes wrong around a broker: SIGKILL under
// load, SIGTERM, clients that vanish, garbage, and a full disk.
//
// Tests of a cluster start two brokers and a witness as processes, and kill, freeze
// and restart them under load. The clients write down each op with its call, its
// return and its outcome, by one monotonic clock. The history is then searched for
// what must not be: acknowledged messages that are lost, deleted ones that come
// back, receipts and groups that do not hold, two primaries of one epoch. With
// -artifacts, go test keeps the history and the logs of the nodes of a test that
// failed.
//
// TestMain builds the binary once, without cgo, as a release is built.
// LEASEMQ_BROKER names another binary to test instead. Every node listens on
// free ports of loopback and keeps its data in a directory of its own.
//
// Environment:
//
//   - LEASEMQ_BROKER: path of the binary to test; empty: build it
//   - LEASEMQ_KILLS: how often each kill test kills (10, of STOMP 5, of a cluster 4)
//   - LEASEMQ_POLLS: how many long polls TestAMessageWakesOnePoll parks (1,000)
//   - LEASEMQ_SOAK=1: tests that have a long form run it
//   - LEASEMQ_SEED: seed of the random tests; they print theirs
//   - LEASEMQ_CLIENTS=optional: a client that is not installed skips its test
//   - LEASEMQ_PYTHON_OLD: interpreter with an old boto3 (/usr/bin/python3)
//   - LEASEMQ_PYTHON_NEW: interpreter with a new boto3 (.cache/venv/bin/python)
//   - LEASEMQ_PYTHON_STOMP: interpreter with stomp.py (/usr/bin/python3)
//   - LEASEMQ_PYTHON_MQTT: interpreter with paho-mqtt (/usr/bin/python3)
//   - LEASEMQ_MOSQUITTO_PUB, _SUB, _RR: clients of Mosquitto (mosquitto_pub, ...)
//   - LEASEMQ_RUBY: interpreter with the gem stomp (/usr/bin/ruby)
//   - LEASEMQ_AWS: the AWS CLI (.cache/venv/bin/aws)
//   - LEASEMQ_NODE: Node.js (node); packages from node_modules of the module
package e2e
