package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// hugeKilobytes is how much of a process's memory is on huge pages.
func hugeKilobytes(t *testing.T, pid int) (kilobytes int) {
	t.Helper()
	summary, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(summary)) {
		if n, _ := fmt.Sscanf(line, "AnonHugePages: %d kB", &kilobytes); n == 1 {
			return kilobytes
		}
	}
	return 0
}

func TestTheHeapIsOnHugePagesWhereItIsAskedToBe(t *testing.T) {
	enabled, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(enabled), "[never]") {
		code, _, stderr := runToEnd(t, "--port", "0", "--huge-pages")
		if code != 1 || !strings.Contains(stderr, "--huge-pages") {
			t.Errorf("without huge pages: exit code %d, standard error %q", code, stderr)
		}
		return
	}
	s := startCatalogue(t, "--huge-pages")
	if got := hugeKilobytes(t, s.PID); got < 2048 {
		t.Errorf("%d kB are on huge pages", got)
	}
	if got := get(t, s.Listening, "/simple"); got != `{"message":"hi"}` {
		t.Errorf("/simple answers %q", got)
	}
}

func TestNoMemoryIsOnHugePagesWhereTheyAreRefused(t *testing.T) {
	s := startCatalogue(t, "--huge-pages=never")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(status), "THP_enabled:\t0\n") {
		t.Errorf("the kernel may still give some: %s", status)
	}
	if got := hugeKilobytes(t, s.PID); got != 0 {
		t.Errorf("%d kB are on huge pages", got)
	}
	if got := get(t, s.Listening, "/simple"); got != `{"message":"hi"}` {
		t.Errorf("/simple answers %q", got)
	}
}

func TestAMappingIsOnHugePagesWhereHalfOfItIs(t *testing.T) {
	mapping := func(at, resident, huge int) string {
		return fmt.Sprintf("%x-%x rw-p 00000000 00:00 0\nRss: %d kB\nAnonHugePages: %d kB\nVmFlags: rd wr\n",
			at, at+0x1000, resident, huge)
	}
	for text, want := range map[string]bool{
		mapping(0x1000, 4096, 2048):                              true,
		mapping(0x1000, 6144, 2048):                              false,
		mapping(0x1000, 2048, 2048) + mapping(0x2000, 4096, 0):   false,
		mapping(0x1000, 2048, 2048) + mapping(0x3000, 4096, 0):   true,
		mapping(0x1000, 2048, 0) + mapping(0x3000, 40960, 40960): false,
		"": false,
	} {
		if got := isMostlyHuge(text, 0x1000, 0x3000); got != want {
			t.Errorf("%v, want %v:\n%s", got, want, text)
		}
	}
}
