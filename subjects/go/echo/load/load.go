// Package load holds a closed loop of echo requests: clients that each send one
// request at a time, check its answer, and keep how long it took.
//
//	dial, warm up ─┐                   ┌─ permit? ─► Call ─► check ─► keep ─┐
//	dial, warm up ─┼─ all ready ─► go ─┤            (the clock runs)        ├─► Result
//	dial, warm up ─┘                   └────────────── again ◄──────────────┘
//
// It knows no protocol: a [Dial] gives it what carries a request. What it is not:
// an open loop. A client that waits for an answer asks nothing meanwhile.
//
// Invariants: nothing is counted before every client is warm, nor before the plan's
// warm-up is over; a request that is neither answered nor failed when the load is cut
// off is not counted; what is kept lies outside the collected heap, so that it does
// not set the collector's pace.
package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"wallfinder.dev/subjects/echo/answer"
	"wallfinder.dev/subjects/echo/payload"
)

const (
	// RequestsMax bounds the requests of a load, over all clients: each is kept.
	RequestsMax = 20_000_000
	// failuresInRowMax ends a client whose server is not there any more.
	failuresInRowMax = 10
	// failurePause keeps a failing client from being a load of its own.
	failurePause = 10 * time.Millisecond
	// cutOffGrace is what requests under way are given when a load is cut off.
	cutOffGrace = time.Second
)

// Caller carries requests, one at a time.
type Caller interface {
	// Call sends a request and gives its answer, which is valid until the next call.
	Call(ctx context.Context, request *payload.Payload) (*payload.Payload, error)
	// Close lets go of what belongs to this caller alone.
	Close() error
}

// Delayed is a caller whose requests may have to wait within a call.
type Delayed interface {
	// Began is when the last request could be sent; zero if it did not wait.
	Began() time.Time
}

// Dial gives the caller of a client, by the client's number. It is asked again
// after a failure.
type Dial func(ctx context.Context, client int) (Caller, error)

// Plan is a load, checked by whoever made it.
type Plan struct {
	Clients   int
	Requests  int           // of each client; 0: only Duration ends the load
	Duration  time.Duration // 0: only Requests end it
	WarmUp    time.Duration // under load, before either counts; what ends in it is not counted
	Payload   int           // bytes of data in a request
	Answer    answer.Kind   // what the server was told to answer
	Timeout   time.Duration // of a request, to a quarter
	Semaphore int           // permits that clients share; 0: none are needed
}

// Ended says what ended a load.
type Ended string

// What can end a load.
const (
	ByRequests Ended = "requests"
	ByDuration Ended = "duration"
	BySignal   Ended = "signal"
	ByFailures Ended = "failures" // every client gave up
	ByBound    Ended = "bound"    // RequestsMax
)

// Result is what became of a load.
type Result struct {
	// Elapsed is from the first request, or the end of the plan's warm-up, until the last
	// answer; after a warm-up a Duration that was over is as long as it was planned.
	Elapsed  time.Duration
	Failures map[string]int
	GaveUp   int // clients that failed too often in a row
	Ended    Ended
	Samples  *Samples // one for each good answer
}

// errTimedOut is the cause of a cancelled request.
var errTimedOut = errors.New("no answer in time")

// Run holds a load until it ends by itself or cutOff says so. An error means
// that it did not begin.
func Run(plan Plan, dial Dial, cutOff <-chan struct{}) (*Result, error) {
	group := &group{plan: plan, dial: dial, stop: make(chan struct{})}
	if plan.Semaphore > 0 {
		group.permits = make(chan struct{}, plan.Semaphore)
	}
	if err := group.prepare(cutOff); err != nil {
		group.close()
		return nil, err
	}
	result := group.drive(cutOff)
	group.close()
	return result, nil
}

// group is all clients of a load.
type group struct {
	plan    Plan
	dial    Dial
	clients []*client
	permits chan struct{} // nil: none are needed
	origin  time.Time

	stop     chan struct{}
	stopping atomic.Bool
	once     sync.Once
	ended    Ended
}

// end ends the load after the requests that are under way; the first reason counts.
func (g *group) end(why Ended) {
	g.once.Do(func() {
		g.ended = why
		g.stopping.Store(true)
		close(g.stop)
	})
}

// prepare connects and warms up, all clients at once.
func (g *group) prepare(cutOff <-chan struct{}) error {
	perClient := g.plan.Requests
	if perClient == 0 {
		perClient = RequestsMax / g.plan.Clients
	}
	failures := make(chan error, g.plan.Clients)
	for number := range g.plan.Clients {
		samples, err := newBuffer(g.plan.Requests)
		if err != nil {
			return err
		}
		g.clients = append(g.clients, newClient(number, perClient, g, samples))
	}
	g.origin = time.Now()
	watched := g.watch()
	defer watched()
	for _, client := range g.clients {
		go func() { failures <- client.prepare() }()
	}
	var first error
	for waiting := len(g.clients); waiting > 0; {
		var err error
		select {
		case err = <-failures:
			waiting--
		case <-cutOff:
			cutOff, err = nil, errors.New("ended by a signal before it began")
		}
		if err != nil && first == nil {
			first = err
			g.abandon()
		}
	}
	return first
}

func (g *group) drive(cutOff <-chan struct{}) *Result {
	var running sync.WaitGroup
	g.origin = time.Now()
	watched := g.watch()
	defer watched()
	for _, client := range g.clients {
		running.Go(client.run)
	}
	done := make(chan struct{})
	go func() {
		running.Wait()
		close(done)
	}()
	var deadline <-chan time.Time
	if g.plan.Duration > 0 {
		deadline = time.After(g.plan.WarmUp + g.plan.Duration)
	}
	var grace <-chan time.Time
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		case <-deadline:
			g.end(ByDuration)
		case <-cutOff:
			g.end(BySignal)
			cutOff, grace = nil, time.After(cutOffGrace)
		case <-grace:
			g.abandon()
		}
	}
	g.end(ByRequests)
	return g.result()
}

func (g *group) result() *Result {
	result := &Result{Failures: map[string]int{}, Ended: g.ended, Samples: &Samples{}}
	for _, client := range g.clients {
		result.Elapsed = max(result.Elapsed, client.last)
		for class, count := range client.failures {
			result.Failures[class] += count
		}
		if client.gaveUp {
			result.GaveUp++
		}
		result.Samples.buffers = append(result.Samples.buffers, client.samples)
	}
	if g.plan.WarmUp > 0 {
		// Of nothing that was counted there is no time either.
		result.Elapsed = max(0, result.Elapsed-g.plan.WarmUp)
		if g.ended == ByDuration {
			result.Elapsed = g.plan.Duration
		}
	}
	if result.GaveUp == len(g.clients) {
		result.Ended = ByFailures
	}
	return result
}

// counts says whether what ended then, since the origin, is of the load that was asked
// for. After a warm-up a load of some length is what ends within its window, and not what
// was under way when it closed: until then as much was under way all the time.
func (g *group) counts(ended time.Duration) bool {
	if g.plan.WarmUp == 0 {
		return true
	}
	isOpen := g.plan.Duration == 0 || ended < g.plan.WarmUp+g.plan.Duration
	return isOpen && ended >= g.plan.WarmUp
}

// watch cancels requests that take too long, until its result is called. One
// watcher costs a client less than a timer for each request would.
func (g *group) watch() func() {
	ticker := time.NewTicker(max(g.plan.Timeout/8, time.Millisecond))
	over, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-ticker.C:
				now := time.Since(g.origin)
				for _, client := range g.clients {
					client.session.Load().expire(now, g.plan.Timeout)
				}
			case <-over:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(over)
		<-gone
	}
}

// abandon gives up what is under way, without counting it.
func (g *group) abandon() {
	for _, client := range g.clients {
		client.session.Load().cancel(context.Canceled)
	}
}

func (g *group) close() {
	for _, client := range g.clients {
		if client.caller != nil {
			_ = client.caller.Close()
		}
	}
}

// session is the life of one caller.
type session struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	started atomic.Int64 // when the request under way was sent, since the origin; 0: none is
}

func newSession() *session {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &session{ctx: ctx, cancel: cancel}
}

func (s *session) expire(now, limit time.Duration) {
	if started := s.started.Load(); started > 0 && now-time.Duration(started) > limit {
		s.cancel(errTimedOut)
	}
}

// client sends one request at a time.
type client struct {
	number  int
	left    int // requests to make
	group   *group
	session atomic.Pointer[session]
	caller  Caller

	request  payload.Payload
	id       ids
	samples  *Buffer
	failures map[string]int
	inRow    int
	gaveUp   bool
	last     time.Duration // the last answer that counts, since the origin
}

func newClient(number, requests int, group *group, samples *Buffer) *client {
	client := &client{number: number, left: requests, group: group, samples: samples, failures: map[string]int{}}
	client.session.Store(newSession())
	client.id.start(number)
	client.request.Data = data(group.plan.Payload)
	return client
}

// prepare connects, and makes the one request that is not counted.
func (c *client) prepare() error {
	session := c.session.Load()
	session.started.Store(max(1, int64(time.Since(c.group.origin))))
	defer session.started.Store(0)
	var err error
	if c.caller, err = c.group.dial(session.ctx, c.number); err == nil {
		c.next(time.Now())
		err = c.call(session)
	}
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(session.ctx), errTimedOut) {
		err = fmt.Errorf("%w, %s", errTimedOut, c.group.plan.Timeout)
	}
	return fmt.Errorf("client %d of %d could not warm up: %w", c.number+1, c.group.plan.Clients, err)
}

func (c *client) run() {
	for c.left > 0 && !c.group.stopping.Load() {
		asked := time.Now()
		c.next(asked)
		sent := asked
		if c.group.permits != nil {
			select {
			case c.group.permits <- struct{}{}:
			case <-c.group.stop:
				return
			}
			sent = time.Now()
		}
		session := c.session.Load()
		session.started.Store(max(1, int64(sent.Sub(c.group.origin))))
		err := c.call(session)
		done := time.Now()
		if c.group.permits != nil {
			<-c.group.permits
		}
		session.started.Store(0)
		if delayed, ok := c.caller.(Delayed); ok {
			if began := delayed.Began(); !began.IsZero() {
				sent = began
			}
		}
		ended := done.Sub(c.group.origin)
		counts := c.group.counts(ended)
		if err == nil {
			c.inRow = 0
			if counts {
				c.last = ended
				err = c.samples.add(Sample{
					Asked:   asked.Sub(c.group.origin),
					Waited:  sent.Sub(asked),
					Service: done.Sub(sent),
				})
			}
		}
		if err != nil && !c.fail(err, counts) {
			return
		}
		if counts {
			c.left--
		}
	}
	if c.left == 0 && c.group.plan.Requests == 0 {
		c.group.end(ByBound)
	}
}

// next makes the request that is asked for now.
func (c *client) next(now time.Time) {
	c.request.Id = c.id.next()
	c.request.Timestamp = now.UnixNano()
}

// call makes a request and checks its answer.
func (c *client) call(session *session) error {
	answered, err := c.caller.Call(session.ctx, &c.request)
	if err != nil {
		return err
	}
	return check(c.group.plan.Answer, &c.request, answered)
}

// fail counts a failure, if it counts, and connects anew, unless the load was cut off
// or the server does not seem to be there any more.
func (c *client) fail(err error, counts bool) bool {
	if errors.Is(context.Cause(c.session.Load().ctx), context.Canceled) {
		return false
	}
	for {
		class := classOf(err)
		if errors.Is(context.Cause(c.session.Load().ctx), errTimedOut) {
			class = "timeout.total"
		}
		if counts {
			c.failures[class]++
		}
		c.inRow++
		if c.gaveUp = c.inRow >= failuresInRowMax; c.gaveUp {
			return false
		}
		time.Sleep(failurePause)
		if c.caller != nil {
			_ = c.caller.Close()
		}
		c.session.Load().cancel(context.Canceled)
		session := newSession()
		c.session.Store(session)
		session.started.Store(max(1, int64(time.Since(c.group.origin))))
		c.caller, err = c.group.dial(session.ctx, c.number)
		session.started.Store(0)
		if err == nil {
			return true
		}
		if counts = c.group.counts(time.Since(c.group.origin)); counts {
			c.left--
		}
		if counts && c.left <= 1 || c.group.stopping.Load() {
			return false
		}
	}
}
