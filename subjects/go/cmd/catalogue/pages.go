package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// madvCollapse makes huge pages of what is mapped already (Linux 6.1).
const madvCollapse = 25

// useHugePages has the heap on huge pages, by the mapping that holds this piece
// of it. It fails where the kernel gives none: a server that has none shows
// nothing of them.
func useHugePages(ofHeap []byte) error {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(ofHeap)))
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		var from, to uintptr
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x", &from, &to); err != nil {
			return fmt.Errorf("a line of /proc/self/maps: %w", err)
		}
		if at < from || at >= to {
			continue
		}
		if err := advise(from, to-from, unix.MADV_HUGEPAGE); err != nil {
			return fmt.Errorf("--huge-pages: the kernel gives none: %w", err)
		}
		// Where the kernel cannot at once, it does so when it comes by.
		if err := advise(from, to-from, madvCollapse); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("--huge-pages: %w", err)
		}
		return hasHugePages()
	}
	return errors.Join(errors.New("--huge-pages: no heap was found in /proc/self/maps"), lines.Err())
}

// advise tells the kernel of memory by its address: it belongs to the runtime,
// and no slice spans it.
func advise(from, length uintptr, advice int) error {
	if _, _, failed := unix.Syscall(unix.SYS_MADVISE, from, length, uintptr(advice)); failed != 0 {
		return failed
	}
	return nil
}

// hasHugePages fails where this process has none.
func hasHugePages() error {
	summary, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(summary)) {
		var kilobytes int
		if n, _ := fmt.Sscanf(line, "AnonHugePages: %d kB", &kilobytes); n == 1 && kilobytes > 0 {
			return nil
		}
	}
	return errors.New("--huge-pages: the kernel gave none (/sys/kernel/mm/transparent_hugepage/enabled)")
}
