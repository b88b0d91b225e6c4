package sqs

import (
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/leasemq/broker/core"
)

// moves is what the frontend asks of core.Client about move tasks.
type moves interface {
	StartMove(ctx context.Context, o core.MoveOptions) (core.MoveTask, error)
	CancelMove(ctx context.Context, source string, id core.Seq) (moved int64, err error)
	MoveTasks(ctx context.Context, source string, most int) ([]core.MoveTask, error)
}

// moveParams are the parameters that only the actions of move tasks have.
type moveParams struct {
	source      text    // SourceArn
	destination text    // DestinationArn
	handle      text    // TaskHandle
	rate        integer // MaxNumberOfMessagesPerSecond
}

// moveParam reads the value of a member that actions of move tasks have, and
// tells whether key is one.
func (s *scanner) moveParam(key string, p *moveParams) (known bool, err error) {
	switch key {
	case "SourceArn":
		p.source, err = s.str()
	case "DestinationArn":
		p.destination, err = s.str()
	case "TaskHandle":
		p.handle, err = s.str()
	case "MaxNumberOfMessagesPerSecond":
		p.rate, err = s.integer()
	default:
		return false, nil
	}
	return true, err
}

// set takes a parameter of a Query request, and tells whether name is one.
func (p *moveParams) set(name string, value text) bool {
	switch name {
	case "SourceArn":
		p.source = value
	case "DestinationArn":
		p.destination = value
	case "TaskHandle":
		p.handle = value
	case "MaxNumberOfMessagesPerSecond":
		p.rate, _ = parseInteger(value)
	default:
		return false
	}
	return true
}

// moveQueue returns the queue that an ARN of the request names.
func (c *call) moveQueue(arn text, parameter string) (core.Queue, error) {
	if parts := strings.Split(arn.view(), ":"); len(parts) != 6 || parts[0] != "arn" || parts[2] != "sqs" {
		return core.Queue{}, fail(faultInvalidParameter, "You must use this format to specify the %s: arn:<partition>:<service>:<region>:<account-id>:<resource-id>", parameter)
	}
	name, ok := c.server.queueOfARN(string(arn))
	if !ok {
		return core.Queue{}, noResource(parameter)
	}
	q, err := c.client.Queue(contextOfWork(), name)
	return q, noQueueIs(err, parameter)
}

func noResource(parameter string) error {
	return fail(faultNotFound, "The resource that you specified for the %s parameter doesn't exist.", parameter)
}

// noQueueIs tells core.ErrNoQueue as what an ARN of the request lacks.
func noQueueIs(err error, parameter string) error {
	if errors.Is(err, core.ErrNoQueue) {
		return noResource(parameter)
	}
	return err
}

func startMessageMoveTask(c *call) error {
	const action = "StartMessageMoveTask"
	p := &c.params.move
	if p.source == nil {
		return missing("SourceArn")
	}
	if p.rate.isSet() && (p.rate.n < 1 || p.rate.n > core.MoveRateMax) {
		return invalid(p.rate.sent, "MaxNumberOfMessagesPerSecond", "Must be between 1 and 500, if provided.")
	}
	source, err := c.moveQueue(p.source, "SourceArn")
	if err != nil {
		return err
	}
	o := core.MoveOptions{Source: source.Name, Rate: int(p.rate.n)}
	sources, err := c.client.Sources(contextOfWork(), source.Name, "", 1)
	if err != nil {
		return err
	}
	if len(sources) == 0 {
		return fail(faultInvalidParameter, "Source queue must be configured as a Dead Letter Queue.")
	}
	if p.destination != nil {
		destination, err := c.moveQueue(p.destination, "DestinationArn")
		if err != nil {
			return err
		}
		if err := checkMove(&source, &destination); err != nil {
			return err
		}
		o.Destination = destination.Name
	}
	t, err := c.client.StartMove(contextOfWork(), o)
	if err != nil {
		return noQueueIs(err, "SourceArn")
	}
	c.answer.open(action)
	c.answer.plainField("TaskHandle", c.server.moveHandle(&t))
	c.answer.close(action, c.id())
	return nil
}

// checkMove refuses a destination that the core would refuse without telling why
// in the words of SQS.
func checkMove(source, destination *core.Queue) error {
	switch {
	case source.Name == destination.Name:
		return fail(faultInvalidParameter, "Source queue and destination queue must be different.")
	case (source.Config.Kind == core.KindFIFO) != (destination.Config.Kind == core.KindFIFO):
		return fail(faultInvalidParameter, "Source queue and destination queue must be of the same type.")
	}
	return nil
}

// moveHandle is what names a task to clients: base64 of a JSON object, as on AWS.
func (s *Server) moveHandle(t *core.MoveTask) string {
	b := append([]byte(nil), `{"taskId":"`...)
	b = strconv.AppendUint(b, uint64(t.ID), 16)
	b = append(b, `","sourceArn":`...)
	b = appendQuoted(b, bytesOf(s.arn(t.Source)))
	return base64.StdEncoding.EncodeToString(append(b, '}'))
}

// moveHandleMax bounds a handle, in bytes: that of the longest name is shorter.
const moveHandleMax = 1024

// parseMoveHandle returns the ARN and the task that a handle names.
func parseMoveHandle(handle text) (source text, id core.Seq, err error) {
	wrong := fail(faultInvalidParameter, "Value for parameter TaskHandle is invalid.")
	if len(handle) > moveHandleMax {
		return nil, 0, wrong
	}
	b, err := base64.StdEncoding.DecodeString(handle.view())
	if err != nil {
		return nil, 0, wrong
	}
	var h struct {
		Task   string `json:"taskId"`
		Source string `json:"sourceArn"`
	}
	if err := json.Unmarshal(b, &h); err != nil || h.Source == "" {
		return nil, 0, wrong
	}
	n, err := strconv.ParseUint(h.Task, 16, 64)
	if err != nil {
		return nil, 0, wrong
	}
	return text(h.Source), core.Seq(n), nil
}

func cancelMessageMoveTask(c *call) error {
	const action = "CancelMessageMoveTask"
	if c.params.move.handle == nil {
		return missing("TaskHandle")
	}
	arn, id, err := parseMoveHandle(c.params.move.handle)
	if err != nil {
		return err
	}
	source, err := c.moveQueue(arn, "SourceArn")
	if err != nil {
		return err
	}
	moved, err := c.client.CancelMove(contextOfWork(), source.Name, id)
	if err != nil {
		return noQueueIs(err, "SourceArn")
	}
	c.answer.open(action)
	c.answer.intField("ApproximateNumberOfMessagesMoved", moved)
	c.answer.close(action, c.id())
	return nil
}

// moveResultsMax is how many tasks one answer lists.
const moveResultsMax = core.MoveTasksKept

func listMessageMoveTasks(c *call) error {
	const action = "ListMessageMoveTasks"
	p := &c.params
	if p.move.source == nil {
		return missing("SourceArn")
	}
	limit := 1
	if p.maxResults.isSet() {
		if p.maxResults.n < 1 || p.maxResults.n > moveResultsMax {
			return invalid(p.maxResults.sent, "MaxResults", "Must be between 1 and 10, if provided.")
		}
		limit = int(p.maxResults.n)
	}
	source, err := c.moveQueue(p.move.source, "SourceArn")
	if err != nil {
		return err
	}
	tasks, err := c.client.MoveTasks(contextOfWork(), source.Name, limit)
	if err != nil {
		return noQueueIs(err, "SourceArn")
	}
	a := &c.answer
	a.open(action)
	a.beginList("Results")
	for i := range tasks {
		a.beginItem("ListMessageMoveTasksResultEntry")
		c.writeMoveTask(&tasks[i])
		a.endItem("ListMessageMoveTasksResultEntry")
	}
	a.endList()
	a.close(action, c.id())
	return nil
}

func (c *call) writeMoveTask(t *core.MoveTask) {
	a := &c.answer
	if t.State == core.MoveRunning {
		a.plainField("TaskHandle", c.server.moveHandle(t))
	}
	a.plainField("Status", moveStatus(t.State))
	a.field("SourceArn", bytesOf(c.server.arn(t.Source)))
	if t.Destination != "" {
		a.field("DestinationArn", bytesOf(c.server.arn(t.Destination)))
	}
	if t.Rate > 0 {
		a.intField("MaxNumberOfMessagesPerSecond", int64(t.Rate))
	}
	a.intField("ApproximateNumberOfMessagesMoved", t.Moved)
	a.intField("ApproximateNumberOfMessagesToMove", t.ToMove)
	if t.State == core.MoveFailed {
		a.plainField("FailureReason", moveFailureCode(t.Failure))
	}
	a.intField("StartedTimestamp", t.StartedAt)
}

func moveStatus(s core.MoveState) string {
	switch s {
	case core.MoveRunning:
		return "RUNNING"
	case core.MoveCompleted:
		return "COMPLETED"
	case core.MoveCancelling:
		return "CANCELLING"
	case core.MoveCancelled:
		return "CANCELLED"
	}
	return "FAILED"
}

// moveFailureCode is the error code that AWS gives for a reason, or the nearest
// that SQS has.
func moveFailureCode(f core.MoveFailure) string {
	switch f {
	case core.MoveFailureNoDestination:
		return faultNoQueue.wire().code
	case core.MoveFailureNoOrigin:
		return "CouldNotDetermineMessageSource"
	case core.MoveFailureKind:
		return faultUnsupported.wire().code
	case core.MoveFailureFull:
		return faultOverLimit.wire().code
	case core.MoveFailureTime:
		return faultTimeout.wire().code
	}
	return faultInternal.wire().code
}

// intField writes a number.
func (a *answer) intField(name string, n int64) {
	if a.xml {
		a.tag(name)
		a.b = strconv.AppendInt(a.b, n, 10)
		a.endTag(name, "")
		return
	}
	a.key(name, "")
	a.b = strconv.AppendInt(a.b, n, 10)
}
