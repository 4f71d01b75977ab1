package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"wallfinder.dev/subjects/echo/answer"
	"wallfinder.dev/subjects/echo/payload"
)

// spoken is a caller that answers by a function.
type spoken func(ctx context.Context, request *payload.Payload) (*payload.Payload, error)

func (s spoken) Call(ctx context.Context, request *payload.Payload) (*payload.Payload, error) {
	return s(ctx, request)
}

func (spoken) Close() error { return nil }

func echoed(request *payload.Payload) *payload.Payload {
	return &payload.Payload{Id: request.Id, Data: request.Data, Timestamp: 1}
}

// dialled gives every client the same caller.
func dialled(caller spoken) Dial {
	return func(context.Context, int) (Caller, error) { return caller, nil }
}

func plan(clients, requests int) Plan {
	return Plan{Clients: clients, Requests: requests, Payload: 10, Timeout: 30 * time.Second}
}

func TestEveryRequestIsKeptButTheWarmUp(t *testing.T) {
	var calls atomic.Int64
	ids := make(chan string, 100)
	result, err := Run(plan(3, 5), dialled(func(_ context.Context, request *payload.Payload) (*payload.Payload, error) {
		calls.Add(1)
		ids <- request.Id
		return echoed(request), nil
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if calls.Load() != 3*6 || result.Samples.Count() != 15 || result.Ended != ByRequests {
		t.Errorf("%d calls, %d samples, ended by %s", calls.Load(), result.Samples.Count(), result.Ended)
	}
	close(ids)
	seen := map[string]bool{}
	for id := range ids {
		if len(id) != 16 || seen[id] {
			t.Errorf("the id %q is not new, or not of 16 bytes", id)
		}
		seen[id] = true
	}
}

func TestFairnessIsJainsIndexOfTheAnswersOfEachClient(t *testing.T) {
	of := func(counts ...int) *float64 {
		samples := &Samples{}
		for _, count := range counts {
			buffer, err := newBuffer(8)
			if err != nil {
				t.Fatal(err)
			}
			for range count {
				if err := buffer.add(Sample{}); err != nil {
					t.Fatal(err)
				}
			}
			samples.buffers = append(samples.buffers, buffer)
		}
		return samples.Fairness()
	}
	for _, c := range []struct {
		counts []int
		fair   float64
	}{{[]int{5, 5, 5}, 1}, {[]int{7, 0}, 0.5}, {[]int{3, 1}, 0.8}} {
		if found := of(c.counts...); found == nil || *found != c.fair {
			t.Errorf("%v is %v, not %v", c.counts, found, c.fair)
		}
	}
	if of(5) != nil || of(0, 0) != nil {
		t.Error("nobody to be compared with, or nothing to compare")
	}
}

func TestWrongAnswersAreFailuresByWhatIsWrong(t *testing.T) {
	wrongs := map[string]func(*payload.Payload){
		"body.id":        func(p *payload.Payload) { p.Id = "0000-00000000099" },
		"body.length":    func(p *payload.Payload) { p.Data = p.Data[1:] },
		"body.timestamp": func(p *payload.Payload) { p.Timestamp = 0 },
	}
	for class, wrong := range wrongs {
		calls := 0
		result, err := Run(plan(1, 4), dialled(func(_ context.Context, request *payload.Payload) (*payload.Payload, error) {
			answered := echoed(request)
			if calls++; calls == 3 {
				wrong(answered)
			}
			return answered, nil
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		if result.Failures[class] != 1 || result.Samples.Count() != 3 {
			t.Errorf("%s: %v, %d samples", class, result.Failures, result.Samples.Count())
		}
	}
}

func TestAnAcknowledgementIsRightWhereItWasAskedFor(t *testing.T) {
	kind, err := answer.Parse("ack")
	if err != nil {
		t.Fatal(err)
	}
	plan := plan(1, 3)
	plan.Answer = kind
	result, err := Run(plan, dialled(func(_ context.Context, request *payload.Payload) (*payload.Payload, error) {
		return &payload.Payload{Id: request.Id, Timestamp: 1}, nil
	}), nil)
	if err != nil || result.Samples.Count() != 3 {
		t.Errorf("%v, %v", err, result)
	}
}

func TestAServerThatIsGoneIsGivenUp(t *testing.T) {
	calls := 0
	result, err := Run(plan(1, 1000), dialled(func(_ context.Context, request *payload.Payload) (*payload.Payload, error) {
		if calls++; calls > 5 {
			return nil, fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
		}
		return echoed(request), nil
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if result.Failures["net.refused"] != failuresInRowMax || result.GaveUp != 1 || result.Ended != ByFailures {
		t.Errorf("%v, %d gave up, ended by %s", result.Failures, result.GaveUp, result.Ended)
	}
}

func TestAClientConnectsAnewAfterAFailure(t *testing.T) {
	dials := 0
	result, err := Run(plan(1, 6), func(context.Context, int) (Caller, error) {
		dials++
		calls := 0
		return spoken(func(_ context.Context, request *payload.Payload) (*payload.Payload, error) {
			if calls++; calls == 3 && dials == 1 {
				return nil, io.ErrUnexpectedEOF
			}
			return echoed(request), nil
		}), nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if dials != 2 || result.Failures["net.closed.wait"] != 1 || result.Samples.Count() != 5 {
		t.Errorf("%d dials, %v, %d samples", dials, result.Failures, result.Samples.Count())
	}
}

func TestAServerThatDoesNotAnswerIsTimedOut(t *testing.T) {
	calls := 0
	plan := plan(1, 2)
	plan.Timeout = 20 * time.Millisecond
	result, err := Run(plan, dialled(func(ctx context.Context, request *payload.Payload) (*payload.Payload, error) {
		if calls++; calls == 2 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return echoed(request), nil
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if result.Failures["timeout.total"] != 1 || result.Samples.Count() != 1 {
		t.Errorf("%v, %d samples", result.Failures, result.Samples.Count())
	}
	_, err = Run(plan, dialled(func(ctx context.Context, _ *payload.Payload) (*payload.Payload, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}), nil)
	if !errors.Is(err, errTimedOut) {
		t.Errorf("a warm-up that is not answered: %v", err)
	}
}

func TestPermitsBoundWhatIsInFlightAndWaitingIsToldApart(t *testing.T) {
	var inFlight, most atomic.Int64
	plan := plan(8, 5)
	plan.Semaphore = 2
	warm := atomic.Int64{}
	result, err := Run(plan, dialled(func(_ context.Context, request *payload.Payload) (*payload.Payload, error) {
		if warm.Add(1) <= 8 {
			return echoed(request), nil
		}
		now := inFlight.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		time.Sleep(time.Millisecond)
		inFlight.Add(-1)
		return echoed(request), nil
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if most.Load() > 2 {
		t.Errorf("%d were in flight with two permits", most.Load())
	}
	asking, sending := result.Samples.Summary(FromAsking), result.Samples.Summary(FromSending)
	// Of eight, six wait at a time: for about three services each.
	if asking.MeanNs < 2*sending.MeanNs || sending.MinNs < int64(time.Millisecond) {
		t.Errorf("from asking %v, from sending %v", asking, sending)
	}
}

func TestALoadEndsByTheClock(t *testing.T) {
	plan := plan(2, 0)
	plan.Duration = 30 * time.Millisecond
	result, err := Run(plan, dialled(func(_ context.Context, request *payload.Payload) (*payload.Payload, error) {
		time.Sleep(time.Millisecond)
		return echoed(request), nil
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if result.Ended != ByDuration || result.Samples.Count() == 0 || result.Elapsed <= 0 {
		t.Errorf("ended by %s with %d after %s", result.Ended, result.Samples.Count(), result.Elapsed)
	}
}

func TestWhatEndsInTheWarmUpIsCountedNowhere(t *testing.T) {
	var calls atomic.Int64
	plan := plan(2, 0)
	plan.WarmUp, plan.Duration = 60*time.Millisecond, 90*time.Millisecond
	result, err := Run(plan, dialled(func(_ context.Context, request *payload.Payload) (*payload.Payload, error) {
		calls.Add(1)
		time.Sleep(time.Millisecond)
		return echoed(request), nil
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if result.Ended != ByDuration || result.Elapsed != plan.Duration {
		t.Errorf("ended by %s after %s", result.Ended, result.Elapsed)
	}
	// One of each client before the warm-up, and at least some in it.
	count := int64(result.Samples.Count())
	if count == 0 || calls.Load() < count+2+2 {
		t.Errorf("%d of %d calls are counted", count, calls.Load())
	}
	for _, buffer := range result.Samples.buffers {
		buffer.each(func(sample Sample) {
			ended := sample.Asked + sample.Waited + sample.Service
			if ended < plan.WarmUp || ended >= plan.WarmUp+plan.Duration {
				t.Errorf("%+v ended outside of the window", sample)
			}
		})
	}
}

func TestFailuresInTheWarmUpAreCountedNowhereAndRequestsFromItsEnd(t *testing.T) {
	calls := 0
	plan := plan(1, 5)
	plan.WarmUp = 500 * time.Millisecond
	began := time.Now()
	result, err := Run(plan, dialled(func(_ context.Context, request *payload.Payload) (*payload.Payload, error) {
		time.Sleep(time.Millisecond)
		if calls++; calls == 2 || calls == 3 {
			return nil, io.ErrUnexpectedEOF
		}
		return echoed(request), nil
	}), nil)
	took := time.Since(began)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Failures) != 0 || result.Samples.Count() != 5 || result.Ended != ByRequests {
		t.Errorf("%v, %d samples, ended by %s", result.Failures, result.Samples.Count(), result.Ended)
	}
	if calls < 2+5 || took < plan.WarmUp || result.Elapsed <= 0 || result.Elapsed > took-plan.WarmUp {
		t.Errorf("%d calls in %s, of which %s count", calls, took, result.Elapsed)
	}
}

func TestALoadThatIsCutOffReportsWhatItHas(t *testing.T) {
	cutOff := make(chan struct{})
	calls := 0
	result, err := Run(plan(1, 1000), dialled(func(ctx context.Context, request *payload.Payload) (*payload.Payload, error) {
		if calls++; calls == 4 {
			close(cutOff)
			<-ctx.Done() // it never would be answered
			return nil, ctx.Err()
		}
		return echoed(request), nil
	}), cutOff)
	if err != nil {
		t.Fatal(err)
	}
	if result.Ended != BySignal || result.Samples.Count() != 2 || len(result.Failures) != 0 {
		t.Errorf("ended by %s with %d, %v", result.Ended, result.Samples.Count(), result.Failures)
	}
}

func TestSamplesAreWrittenAsTheyAre(t *testing.T) {
	samples := &Samples{}
	for client := range 2 {
		buffer, err := newBuffer(1)
		if err != nil {
			t.Fatal(err)
		}
		// More than one chunk.
		for nth := range 3000 {
			sample := Sample{Asked: time.Duration(nth), Waited: time.Duration(client), Service: 100}
			if err := buffer.add(sample); err != nil {
				t.Fatal(err)
			}
		}
		samples.buffers = append(samples.buffers, buffer)
	}
	var out bytes.Buffer
	if err := samples.Write(&out); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(&out)
	line, err := reader.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var header struct {
		Format  string
		Columns []string
		Records int
	}
	if err := json.Unmarshal(line, &header); err != nil || header.Records != 6000 || header.Format != Format {
		t.Fatalf("%s: %v", line, err)
	}
	for nth := range header.Records {
		record := make([]uint64, len(header.Columns))
		if err := binary.Read(reader, binary.LittleEndian, record); err != nil {
			t.Fatal(err)
		}
		client := uint64(nth / 3000)
		if record[0] != client || record[1] != uint64(nth%3000) || record[2] != client || record[3] != 100 {
			t.Fatalf("record %d is %v", nth, record)
		}
	}
	if rest, _ := io.ReadAll(reader); len(rest) > 0 {
		t.Errorf("%d bytes follow", len(rest))
	}
}

func TestQuantilesAreSamplesByTheNearestRank(t *testing.T) {
	buffer, err := newBuffer(1000)
	if err != nil {
		t.Fatal(err)
	}
	for nth := range 1000 {
		// From the largest to the smallest.
		if err := buffer.add(Sample{Service: time.Duration(1000 - nth)}); err != nil {
			t.Fatal(err)
		}
	}
	summary := (&Samples{buffers: []*Buffer{buffer}}).Summary(FromSending)
	for name, value := range map[string]int64{"p50": 500, "p90": 900, "p99": 990, "p99.9": 999, "p99.99": 1000} {
		if summary.Quantiles[name] != value {
			t.Errorf("%s is %d", name, summary.Quantiles[name])
		}
	}
	if summary.MinNs != 1 || summary.MaxNs != 1000 || summary.MeanNs != 500.5 {
		t.Errorf("%+v", summary)
	}
	if (&Samples{}).Summary(FromSending) != nil {
		t.Error("of nothing there is no summary")
	}
}
