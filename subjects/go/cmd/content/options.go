package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"wallfinder.dev/subjects/content/encode"
	"wallfinder.dev/subjects/content/files"
	"wallfinder.dev/subjects/content/serve"
	"wallfinder.dev/subjects/content/store"
	"wallfinder.dev/subjects/content/table"
	"wallfinder.dev/subjects/secure"
	"wallfinder.dev/subjects/service"
	"wallfinder.dev/subjects/settings"
)

const usage = `Usage: content [flags]

Serves texts in the coding that the client wants most, to be put under load, over
HTTP/1.1 and HTTP/2 on one port. Without --root they are made: /realistic/1k.txt
to /realistic/1m.txt in powers of two, and /repeated/1k.txt to /repeated/1m.txt;
/types/prose.html, .xhtml, .css, .js, .json, .xml, .svg, .gz and .pdf;
/types/picture.png, .jpg, .gif and .ico; /types/font.ttf, .otf and .woff2.

  --host ADDRESS         where to listen (default 127.0.0.1)
  --port N               0 takes a free one, and the start-up line says which (default 8085)
  --root FOLDER          serve its files instead; nothing outside of it
  --seed N               of the made texts (default 1)

  --codings LIST         those that may be used, or none (default zstd,br,gzip,deflate)
  --table FILE           which type is compressed by what: a line for each, such as
                         'text/css gzip', 'image/png none', 'text/html any'
                         (default: text is, pictures and sound are not); any: everything is
  --threshold BYTES      smaller files are sent as they are (default 1400)
  --cache BYTES          for compressed bodies; 0 compresses for each answer (default 67108864)
  --gzip-level N         1 to 9, of gzip and deflate (default 6)
  --br-level N           0 to 11 (default 5)
  --zstd-level N         1 to 22 (default 3)

` + secure.Usage + `
  --gogc N|off           as the variable GOGC (default: as GOGC says, else 100)
  --memory-limit BYTES   as the variable GOMEMLIMIT (default: as GOMEMLIMIT says, else none)
  --pprof PORT|off       profiles at /debug/pprof/; 0 takes a free port (default off)
  --mutex-fraction N     sample one in N lock contentions, 0 for none (default 5)
  --block-rate NS        sample one blocking event per NS nanoseconds blocked, 0 for none (default 1000000)

  --version              print versions and exit
  --help                 print this and exit

The variable GOMAXPROCS sets the processors to use.
`

// Bounds of what the flags accept.
const (
	thresholdMax = 1 << 30
	cacheMax     = 1 << 40
)

// options are the command line, checked.
type options struct {
	service   service.Service
	root      string
	seed      int
	codings   []string
	table     string
	threshold int
	cache     int
	levels    encode.Levels

	version bool
}

func parseOptions(args []string) (options, error) {
	o := options{
		service:   service.At(8085),
		seed:      1,
		codings:   encode.Codings,
		threshold: 1400,
		cache:     64 << 20,
		levels:    encode.Defaults(),
	}
	flags := flag.NewFlagSet("content", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints errors and usage

	o.service.Define(flags)
	flags.StringVar(&o.root, "root", "", "")
	flags.Func("seed", "", settings.Number(&o.seed, 0, 1<<40))
	flags.Func("codings", "", settings.Parsed(&o.codings, parseCodings))
	flags.StringVar(&o.table, "table", "", "")
	flags.Func("threshold", "", settings.Number(&o.threshold, 0, thresholdMax))
	flags.Func("cache", "", settings.Number(&o.cache, 0, cacheMax))
	flags.Func("gzip-level", "", settings.Number(&o.levels.Gzip, 1, 9))
	flags.Func("br-level", "", settings.Number(&o.levels.Brotli, 0, 11))
	flags.Func("zstd-level", "", settings.Number(&o.levels.Zstd, 1, 22))
	flags.BoolVar(&o.version, "version", o.version, "")

	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q: everything is a flag", flags.Arg(0))
	}
	unfit := []error{o.service.Check(flags)}
	flags.Visit(func(f *flag.Flag) {
		if f.Name == "seed" && o.root != "" {
			unfit = append(unfit, errors.New("--seed is of made texts, and --root has its own"))
		}
	})
	return o, errors.Join(unfit...)
}

func parseCodings(text string) ([]string, error) {
	if text == "none" {
		return []string{}, nil
	}
	codings := strings.Split(text, ",")
	for _, coding := range codings {
		if !slices.Contains(encode.Codings, coding) {
			return nil, fmt.Errorf("must be none, or some of %s", strings.Join(encode.Codings, ","))
		}
	}
	return codings, nil
}

// served opens what is to be served.
func (o options) served() (serve.Settings, error) {
	served := serve.Settings{
		Files:     nil,
		Table:     table.Default(),
		Codings:   o.codings,
		Levels:    o.levels,
		Threshold: o.threshold,
		Kept:      store.New(o.cache),
	}
	if o.table == "any" {
		served.Table = table.Any()
	} else if o.table != "" {
		file, err := os.Open(o.table)
		if err != nil {
			return served, err
		}
		defer file.Close()
		if served.Table, err = table.Parse(file); err != nil {
			return served, fmt.Errorf("%s: %w", o.table, err)
		}
	}
	if o.root == "" {
		served.Files = files.Made(uint64(o.seed))
		return served, nil
	}
	var err error
	served.Files, err = files.In(o.root)
	return served, err
}
