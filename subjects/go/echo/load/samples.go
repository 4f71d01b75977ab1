package load

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Sample is one good answer.
type Sample struct {
	Asked   time.Duration // since the first request of the load could be sent
	Waited  time.Duration // for a permit
	Service time.Duration // from sending until the answer was decoded
}

const (
	columnBytes = 8
	sampleBytes = 3 * columnBytes
	// chunkBytes is mapped at a time, and touched at once: no answer is the one
	// that a page has to be found for.
	chunkBytes = 1 << 16
)

// Buffer keeps the samples of one client, outside of the collected heap. It lives
// as long as the process.
type Buffer struct {
	chunks [][]byte // full ones, and the last
	used   int      // bytes of the last
}

// newBuffer has room for count samples at once, and makes more when it is needed.
func newBuffer(count int) (*Buffer, error) {
	buffer := &Buffer{}
	bytes := min(max(count, 1)*sampleBytes, chunkBytes)
	if err := buffer.grow(bytes); err != nil {
		return nil, err
	}
	return buffer, nil
}

func (b *Buffer) grow(bytes int) error {
	page := unix.Getpagesize()
	bytes = (bytes + page - 1) / page * page
	chunk, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("no memory for %d bytes of latencies: %w", bytes, err)
	}
	b.chunks, b.used = append(b.chunks, chunk), 0
	return nil
}

func (b *Buffer) add(sample Sample) error {
	last := b.chunks[len(b.chunks)-1]
	if len(last)-b.used < sampleBytes {
		// What is left of the chunk holds no whole sample.
		b.chunks[len(b.chunks)-1] = last[:b.used]
		if err := b.grow(chunkBytes); err != nil {
			return err
		}
		last = b.chunks[len(b.chunks)-1]
	}
	at := last[b.used:]
	binary.LittleEndian.PutUint64(at, uint64(sample.Asked))
	binary.LittleEndian.PutUint64(at[columnBytes:], uint64(sample.Waited))
	binary.LittleEndian.PutUint64(at[2*columnBytes:], uint64(sample.Service))
	b.used += sampleBytes
	return nil
}

func (b *Buffer) count() int {
	count := 0
	for nth, chunk := range b.chunks {
		if nth == len(b.chunks)-1 {
			chunk = chunk[:b.used]
		}
		count += len(chunk) / sampleBytes
	}
	return count
}

// each calls visit with the samples in their order.
func (b *Buffer) each(visit func(Sample)) {
	for nth, chunk := range b.chunks {
		if nth == len(b.chunks)-1 {
			chunk = chunk[:b.used]
		}
		for ; len(chunk) > 0; chunk = chunk[sampleBytes:] {
			visit(Sample{
				Asked:   time.Duration(binary.LittleEndian.Uint64(chunk)),
				Waited:  time.Duration(binary.LittleEndian.Uint64(chunk[columnBytes:])),
				Service: time.Duration(binary.LittleEndian.Uint64(chunk[2*columnBytes:])),
			})
		}
	}
}

// Samples are those of all clients.
type Samples struct {
	buffers []*Buffer
}

// Count is how many there are.
func (s *Samples) Count() int {
	count := 0
	for _, buffer := range s.buffers {
		count += buffer.count()
	}
	return count
}

// Fairness is Jain's index of samples over clients: 1 where all have as many, 1/n
// where one of n has them all. Nil below two clients, or without a sample.
func (s *Samples) Fairness() *float64 {
	sum, squares := 0.0, 0.0
	for _, buffer := range s.buffers {
		count := float64(buffer.count())
		sum += count
		squares += count * count
	}
	if len(s.buffers) < 2 || squares == 0 {
		return nil
	}
	fairness := sum * sum / (float64(len(s.buffers)) * squares)
	return &fairness
}

// Clock says from when a latency is counted.
type Clock int

// From asking for a permit, or from sending. Without a semaphore they are one.
const (
	FromAsking Clock = iota
	FromSending
)

// Summary describes latencies, exactly: quantiles are samples, by the nearest rank.
type Summary struct {
	MeanNs    float64          `json:"mean_ns"`
	StdevNs   float64          `json:"stdev_ns"`
	MinNs     int64            `json:"min_ns"`
	MaxNs     int64            `json:"max_ns"`
	Quantiles map[string]int64 `json:"quantiles_ns"`
}

var quantiles = map[string]float64{
	"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999,
}

// Summary of the latencies by a clock; nil if there are none.
func (s *Samples) Summary(clock Clock) *Summary {
	sorted := make([]int64, 0, s.Count())
	for _, buffer := range s.buffers {
		buffer.each(func(sample Sample) {
			latency := sample.Service
			if clock == FromAsking {
				latency += sample.Waited
			}
			sorted = append(sorted, int64(latency))
		})
	}
	if len(sorted) == 0 {
		return nil
	}
	slices.Sort(sorted)
	summary := &Summary{
		MinNs:     sorted[0],
		MaxNs:     sorted[len(sorted)-1],
		Quantiles: make(map[string]int64, len(quantiles)),
	}
	count := float64(len(sorted))
	var sum, squares float64
	for _, latency := range sorted {
		sum += float64(latency)
	}
	summary.MeanNs = sum / count
	for _, latency := range sorted {
		squares += (float64(latency) - summary.MeanNs) * (float64(latency) - summary.MeanNs)
	}
	summary.StdevNs = math.Sqrt(squares / count)
	for name, share := range quantiles {
		rank := int(math.Ceil(share*count - 1e-9))
		summary.Quantiles[name] = sorted[min(max(rank, 1), len(sorted))-1]
	}
	return summary
}

// Format names the layout that Write writes.
const Format = "wallfinder.latencies/1"

// Columns of a record, in order: 8 bytes each, the least significant first.
var Columns = []string{"client", "asked_ns", "waited_ns", "service_ns"}

// Write writes every sample: one line of JSON, which says what follows, and then
// a record of Columns for each, client by client and in each client's order.
func (s *Samples) Write(w io.Writer) error {
	out := bufio.NewWriterSize(w, 1<<18)
	line, err := json.Marshal(map[string]any{
		"format":  Format,
		"columns": Columns,
		"type":    "u64le",
		"records": s.Count(),
	})
	if err != nil {
		return err
	}
	// A failed write fails all later ones, and Flush tells of it.
	_, _ = out.Write(append(line, '\n'))
	record := make([]byte, len(Columns)*columnBytes)
	for client, buffer := range s.buffers {
		binary.LittleEndian.PutUint64(record, uint64(client))
		buffer.each(func(sample Sample) {
			binary.LittleEndian.PutUint64(record[columnBytes:], uint64(sample.Asked))
			binary.LittleEndian.PutUint64(record[2*columnBytes:], uint64(sample.Waited))
			binary.LittleEndian.PutUint64(record[3*columnBytes:], uint64(sample.Service))
			_, _ = out.Write(record)
		})
	}
	return out.Flush()
}
