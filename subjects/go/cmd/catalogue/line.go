package main

import (
	"math"
	"net"
	"os"

	"wallfinder.dev/subjects/announce"
	"wallfinder.dev/subjects/catalogue/products"
	"wallfinder.dev/subjects/catalogue/serve"
)

// startupLine is the one line on standard output.
type startupLine struct {
	announce.Subject
	Prefork     bool   `json:"prefork"`
	ReadBuffer  int    `json:"read_buffer"`
	WriteBuffer int    `json:"write_buffer"`
	Seed        uint64 `json:"seed"`
	content
}

// content describes the products that a process serves. Processes with the
// same content serve the same bytes.
type content struct {
	Products      int     `json:"products"`
	Digest        string  `json:"products_digest"`
	ReadBytesMean float64 `json:"read_bytes_mean"` // over the pool
	GzipBytesMean float64 `json:"read_gz_bytes_mean"`
	GzipRatio     float64 `json:"gz_ratio"`
}

// serving is what a process says when it serves: what, and with how much of
// Go's runtime.
type serving struct {
	Content content `json:"content"`
	Procs   int     `json:"gomaxprocs"` // in force
}

func describeContent(pool *products.Pool) content {
	raw, compressed := meanLength(pool.JSON), meanLength(pool.Gzip)
	return content{
		Products:      pool.Len(),
		Digest:        pool.Digest(),
		ReadBytesMean: round(raw, 1),
		GzipBytesMean: round(compressed, 1),
		GzipRatio:     round(raw/compressed, 3),
	}
}

// describe fills in what every kind of process says alike.
func describe(options options, address net.Addr, profiles []*net.TCPListener, served serving) startupLine {
	line := startupLine{
		Subject: announce.Subject{
			Listening:  address.String(),
			PID:        os.Getpid(),
			Server:     options.server,
			Children:   []int{},
			GOMAXPROCS: served.Procs,
			Pprof:      []string{},
			Versions:   versions(),
		},
		Prefork:     options.prefork,
		ReadBuffer:  options.buffers.Read,
		WriteBuffer: options.buffers.Write,
		Seed:        options.seed,
		content:     served.Content,
	}
	if options.server == serve.NetHTTP {
		line.ReadBuffer, line.WriteBuffer = serve.NetHTTPBuffer, serve.NetHTTPBuffer
	}
	for _, listener := range profiles {
		line.Pprof = append(line.Pprof, listener.Addr().String())
	}
	return line
}

func meanLength(bodies [][]byte) float64 {
	total := 0
	for _, body := range bodies {
		total += len(body)
	}
	return float64(total) / float64(len(bodies))
}

func round(x float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Round(x*scale) / scale
}
