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
