package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
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
		return collapse(from, to-from)
	}
	return errors.Join(errors.New("--huge-pages: no heap was found in /proc/self/maps"), lines.Err())
}

// collapse has the kernel make huge pages of what is mapped. Where memory is in
// pieces it may have to be asked more than once.
func collapse(from, length uintptr) error {
	var refused error
	for range 20 {
		refused = advise(from, length, madvCollapse)
		has, err := hasHugePages()
		if has || err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	none := errors.New("--huge-pages: the kernel gave none (/sys/kernel/mm/transparent_hugepage/enabled)")
	return errors.Join(none, refused)
}

// advise tells the kernel of memory by its address: it belongs to the runtime,
// and no slice spans it.
func advise(from, length uintptr, advice int) error {
	if _, _, failed := unix.Syscall(unix.SYS_MADVISE, from, length, uintptr(advice)); failed != 0 {
		return failed
	}
	return nil
}

// hasHugePages says whether this process has any.
func hasHugePages() (bool, error) {
	summary, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(summary)) {
		var kilobytes int
		if n, _ := fmt.Sscanf(line, "AnonHugePages: %d kB", &kilobytes); n == 1 {
			return kilobytes > 0, nil
		}
	}
	return false, nil
}
