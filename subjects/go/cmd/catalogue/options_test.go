package main

import (
	"strings"
	"testing"

	"wallfinder.dev/subjects/catalogue/serve"
)

func TestDefaults(t *testing.T) {
	o, err := parseOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	if o.server != serve.Fiber || o.address() != "127.0.0.1:8083" || o.prefork || o.profiles.On || o.seed != 1 || o.products != 500 {
		t.Errorf("unexpected defaults: %+v", o)
	}
}

func TestFlagsAreUnderstood(t *testing.T) {
	o, err := parseOptions(strings.Fields(`--server fasthttp --host 127.0.0.2 --port 0 --prefork --children 3 --child-procs 2
		--pprof 6060 --mutex-fraction 1 --block-rate 2 --read-buffer 8192 --write-buffer 8192 --gogc off --huge-pages --locked-draws 4 --seed 7 --products 9`))
	if err != nil {
		t.Fatal(err)
	}
	if o.server != serve.FastHTTP || o.address() != "127.0.0.2:0" || o.children != 3 || o.childProcs != 2 ||
		o.profiles.Rates.MutexFraction != 1 || o.profiles.Rates.BlockNanos != 2 || o.buffers != (serve.Buffers{Read: 8192, Write: 8192}) ||
		o.gogc.String() != "off" || o.hugePages != hugePagesWanted || o.lockedDraws != 4 || o.seed != 7 || o.products != 9 {
		t.Errorf("flags were misunderstood: %+v", o)
	}
	if o.pprofAddress(0) != "127.0.0.2:6060" || o.pprofAddress(3) != "127.0.0.2:6063" {
		t.Errorf("profile ports: %s to %s", o.pprofAddress(0), o.pprofAddress(3))
	}
}

func TestBadFlagsAreRefusedByName(t *testing.T) {
	for line, want := range map[string]string{
		"--server apache":                      "-server",
		"--port 65536":                         "-port",
		"--port -1":                            "-port",
		"--port http":                          "-port",
		"--children 2":                         "--children needs --prefork",
		"--prefork --children 0":               "-children",
		"--child-procs 2":                      "--child-procs needs --prefork",
		"--mutex-fraction 1":                   "--mutex-fraction needs --pprof",
		"--block-rate 1":                       "--block-rate needs --pprof",
		"--pprof yes":                          "or off",
		"--pprof 65535 --prefork --children 2": "--pprof is too high",
		"--server nethttp --write-buffer 8192": "--write-buffer means nothing to nethttp",
		"--server nethttp --read-buffer 8192":  "--read-buffer means nothing to nethttp",
		"--write-buffer 1":                     "-write-buffer",
		"--gogc 0":                             "or off",
		"--locked-draws 0":                     "-locked-draws",
		"--seed -1":                            "-seed",
		"--products 0":                         "-products",
		"--products 65537":                     "-products",
		"--huge-pages=always":                  "--huge-pages=never",
		"--nonsense":                           "-nonsense",
		"serve":                                `unexpected argument "serve"`,
		"--prefork=maybe":                      "-prefork",
		"--server fiber --port 1 --products 1 two": `unexpected argument "two"`,
	} {
		_, err := parseOptions(strings.Fields(line))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("catalogue %s: %v, want an error with %q", line, err, want)
		}
	}
}

func TestUsageNamesEveryFlag(t *testing.T) {
	for _, name := range []string{"server", "host", "port", "prefork", "children", "child-procs", "pprof", "mutex-fraction",
		"block-rate", "read-buffer", "write-buffer", "gogc", "seed", "products", "version"} {
		if !strings.Contains(usage, "--"+name+" ") {
			t.Errorf("usage does not name --%s", name)
		}
	}
}
