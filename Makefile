# What people and CI run. `make` alone prints the targets.

GO          ?= go
VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
REVISION    ?= $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS     := -s -w -X main.version=$(VERSION) -X main.revision=$(REVISION)
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOFUMPT     := mvdan.cc/gofumpt@v0.12.0
# Where Go sources are: what tools that walk folders must see, and no more.
SOURCES     := $(wildcard *.go) $(wildcard cluster cmd configs core e2e frontends plugins storage)
BENCH_TIME  ?= 10s
KILLS       ?= 200
SEEDS       ?= 1000
FUZZ_TIME   ?= 60s

.DEFAULT_GOAL := help

.PHONY: help
help: ## print the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## build bin/broker: static, no C compiler needed
	CGO_ENABLED=0 $(GO) build -buildvcs=false -trimpath -ldflags '$(LDFLAGS)' -o bin/broker ./cmd/broker

.PHONY: run
run: build ## build, then run a broker on ./data (ARGS='--memory' and the like add flags)
	./bin/broker serve $(ARGS)

.PHONY: lint
lint: ## go vet, staticcheck, gofumpt
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	@found=$$($(GO) run $(GOFUMPT) -l $(SOURCES)) || exit 1; \
	if [ -n "$$found" ]; then echo "gofumpt would change:"; echo "$$found"; exit 1; fi

.PHONY: deps
deps: ## install what the tests need (Debian, Ubuntu): compiler, Node.js, Python and Ruby clients
	.ci/deps

.PHONY: test
test: deps lint ## run everything that a change must pass
	.ci/with-clients $(GO) test -race -timeout 15m ./...
	$(GO) test -count=1 -timeout 10m -run '^(TestModel|TestCrashModel)$$' ./core
	$(GO) test -count=1 -timeout 10m -run '^TestSimulatedHistories$$' ./cluster -sim.seeds 100000

.PHONY: bench
bench: build ## measure this machine: core alone, then SQS over HTTP
	./bin/broker bench core --duration $(BENCH_TIME)
	./bin/broker bench sqs --duration $(BENCH_TIME)

.PHONY: soak
soak: deps ## the long tests: 200 kills, more seeds, a minute of fuzzing for each decoder
	LEASEMQ_SOAK=1 LEASEMQ_KILLS=$(KILLS) LEASEMQ_SEEDS=$(SEEDS) .ci/with-clients $(GO) test -count=1 -timeout 6h ./...
	FUZZ_TIME=$(FUZZ_TIME) .ci/fuzz

.PHONY: conformance
conformance: deps build ## every SQS, STOMP and MQTT client of the tests, and the suites of stompjs and Paho
	.ci/with-clients $(GO) test -count=1 -v -timeout 30m ./e2e -run 'Boto3|Celery|SDK|SQSConsumer|CommandLine|STOMPClient|MQTTClient'
	.ci/stompjs
	.ci/mqtt
