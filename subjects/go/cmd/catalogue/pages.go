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

// hugePages is whether memory is on huge pages.
type hugePages int

const (
	// hugePagesAsSet leaves it to the kernel's setting.
	hugePagesAsSet hugePages = iota
	// hugePagesWanted has the heap on them.
	hugePagesWanted
	// hugePagesNever has nothing on them.
	hugePagesNever
)

// parse reads what stands behind --huge-pages, where something does.
func (h *hugePages) parse(value string) error {
	switch value {
	case "true": // nothing stands there
		*h = hugePagesWanted
	case "never":
		*h = hugePagesNever
	default:
		return errors.New("is --huge-pages or --huge-pages=never")
	}
	return nil
}

// refuseHugePages has this process and its children without huge pages, also
// where the kernel gives them to everybody. What it has by now may be on some,
// so the program starts again: the refusal stays.
func refuseHugePages() error {
	refused, err := unix.PrctlRetInt(unix.PR_GET_THP_DISABLE, 0, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("--huge-pages=never: %w", err)
	}
	if refused != 0 {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("--huge-pages=never: %w", err)
	}
	return fmt.Errorf("--huge-pages=never: %w", unix.Exec("/proc/self/exe", os.Args, os.Environ()))
}

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

// hugePageBytes is what one takes on most processors; where it is another size
// only the whole is asked for.
const hugePageBytes = 2 << 20

// collapse has the kernel make huge pages of what is mapped. Where memory is in
// pieces it may have to be asked more than once, and page by page: of a whole it
// leaves all that lies behind the first that cannot be had.
func collapse(from, length uintptr) error {
	var refused error
	for range 20 {
		refused = advise(from, length, madvCollapse)
		if refused != nil {
			first := (from + hugePageBytes - 1) &^ (hugePageBytes - 1)
			for page := first; page+hugePageBytes <= from+length; page += hugePageBytes {
				_ = advise(page, hugePageBytes, madvCollapse)
			}
		}
		smaps, err := os.ReadFile("/proc/self/smaps")
		if err != nil || isMostlyHuge(string(smaps), from, from+length) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	few := errors.New("--huge-pages: the kernel gave too few (/sys/kernel/mm/transparent_hugepage/enabled)")
	return errors.Join(few, refused)
}

// advise tells the kernel of memory by its address: it belongs to the runtime,
// and no slice spans it.
func advise(from, length uintptr, advice int) error {
	if _, _, failed := unix.Syscall(unix.SYS_MADVISE, from, length, uintptr(advice)); failed != 0 {
		return failed
	}
	return nil
}

// isMostlyHuge says whether at least half of what is in memory between two
// addresses is on huge pages, by the text of /proc/self/smaps.
func isMostlyHuge(smaps string, from, to uintptr) bool {
	var resident, huge, kilobytes int
	isWithin := false
	for line := range strings.Lines(smaps) {
		var start, end uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &start, &end); n == 2 {
			isWithin = start >= from && end <= to
			continue
		}
		if !isWithin {
			continue
		}
		if n, _ := fmt.Sscanf(line, "Rss: %d kB", &kilobytes); n == 1 {
			resident += kilobytes
		}
		if n, _ := fmt.Sscanf(line, "AnonHugePages: %d kB", &kilobytes); n == 1 {
			huge += kilobytes
		}
	}
	return huge > 0 && 2*huge >= resident
}
