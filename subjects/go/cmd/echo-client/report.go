package main

import (
	"runtime"

	"google.golang.org/protobuf/proto"

	"wallfinder.dev/subjects/echo/load"
	"wallfinder.dev/subjects/echo/payload"
)

// report is the one line on standard output. Times are in nanoseconds.
type report struct {
	Client   string `json:"echo_client"` // its version
	Protocol string `json:"protocol"`
	Address  string `json:"address"`

	Clients     int   `json:"clients"`
	Connections int   `json:"connections"` // held at a time
	Opened      int64 `json:"connections_opened"`
	// What is on its way at a time: clients, or permits; with credit, as it was on average.
	InFlight     float64 `json:"in_flight"`
	PayloadBytes int     `json:"payload_bytes"`
	RequestBytes int     `json:"request_bytes"` // encoded, without framing

	WarmUp     int            `json:"warm_up_requests"` // of each client, not counted, before any load
	WarmUpNs   int64          `json:"warm_up_ns"`       // under load, not counted either
	Requests   int            `json:"requests"`         // answered and failed
	Answered   int            `json:"answered"`         // whose answers were right
	Failures   map[string]int `json:"failures"`         // by class
	DurationNs int64          `json:"duration_ns"`      // from the first request or the warm-up's end until the last answer
	Ended      load.Ended     `json:"ended_by"`
	Throughput float64        `json:"throughput"` // right answers per second
	// Jain's index of right answers over clients; not where all make as many requests.
	Fairness *float64 `json:"fairness,omitempty"`

	// From asking; that is from sending, unless there is a semaphore, or credit.
	Latency *load.Summary `json:"latency"`
	// From sending, where clients wait for permits or credit.
	Service   *load.Summary `json:"service,omitempty"`
	Semaphore int           `json:"semaphore,omitempty"`
	Credit    bool          `json:"credit,omitempty"`

	GOMAXPROCS  int    `json:"gomaxprocs"`
	GOGC        string `json:"gogc,omitempty"` // where a flag set it
	Collections uint32 `json:"collections"`    // of garbage, connecting and warming up included
}

func describe(options options, result *load.Result) report {
	plan := options.plan
	report := report{
		Client:       version,
		Protocol:     options.protocol,
		Address:      options.address,
		Clients:      plan.Clients,
		Connections:  options.connections(),
		InFlight:     float64(plan.Clients),
		PayloadBytes: plan.Payload,
		RequestBytes: requestBytes(plan.Payload),
		WarmUp:       1,
		WarmUpNs:     plan.WarmUp.Nanoseconds(),
		Answered:     result.Samples.Count(),
		Failures:     result.Failures,
		DurationNs:   result.Elapsed.Nanoseconds(),
		Ended:        result.Ended,
		Latency:      result.Samples.Summary(load.FromAsking),
		GOMAXPROCS:   runtime.GOMAXPROCS(0),
		GOGC:         options.memory.GOGC.String(),
	}
	if plan.Duration > 0 {
		report.Fairness = result.Samples.Fairness()
	}
	report.Requests = report.Answered
	for _, count := range result.Failures {
		report.Requests += count
	}
	if result.Elapsed > 0 {
		report.Throughput = float64(report.Answered) / result.Elapsed.Seconds()
	}
	if plan.Semaphore > 0 || options.credit {
		report.Semaphore, report.Credit = plan.Semaphore, options.credit
		report.Service = result.Samples.Summary(load.FromSending)
	}
	switch {
	case options.credit && report.Service != nil:
		report.InFlight = report.Service.MeanNs * report.Throughput / 1e9
	case plan.Semaphore > 0:
		report.InFlight = float64(min(plan.Clients, plan.Semaphore))
	}
	return report
}

// requestBytes is the length of every request: ids and timestamps are all as long.
func requestBytes(data int) int {
	return proto.Size(&payload.Payload{
		Id:        "0000-00000000000",
		Data:      make([]byte, data),
		Timestamp: 1 << 60,
	})
}
