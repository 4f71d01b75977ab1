// Package settings reads the values of flags that subjects have in common.
package settings

import (
	"flag"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// PortMax is the highest TCP port.
const PortMax = 65_535

// Number reads a whole number within bounds.
func Number(into *int, lowest, highest int) func(string) error {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < lowest || n > highest {
			return fmt.Errorf("must be a whole number from %d to %d", lowest, highest)
		}
		*into = n
		return nil
	}
}

// PortOrOff reads a TCP port, which may be 0, or off.
func PortOrOff(on *bool, port *int) func(string) error {
	return func(text string) error {
		*on = text != "off"
		if !*on {
			return nil
		}
		if err := Number(port, 0, PortMax)(text); err != nil {
			return fmt.Errorf("%w, or off", err)
		}
		return nil
	}
}

// OneOf reads one of some names.
func OneOf(into *string, names []string) func(string) error {
	return func(text string) error {
		if !slices.Contains(names, text) {
			return fmt.Errorf("must be one of %s", strings.Join(names, ", "))
		}
		*into = text
		return nil
	}
}

// Span reads a time within bounds, such as 10s or 500ms; a plain number is seconds.
func Span(into *time.Duration, shortest, longest time.Duration) func(string) error {
	return func(text string) error {
		span, err := time.ParseDuration(text)
		if err != nil {
			span, err = time.ParseDuration(text + "s")
		}
		if err != nil || span < shortest || span > longest {
			return fmt.Errorf("must be a time such as 10s, from %s to %s", shortest, longest)
		}
		*into = span
		return nil
	}
}

// Parsed reads a value by a function that gives it.
func Parsed[T any](into *T, parse func(string) (T, error)) func(string) error {
	return func(text string) error {
		value, err := parse(text)
		if err != nil {
			return err
		}
		*into = value
		return nil
	}
}

// Memory is what the command line says of the garbage collector.
type Memory struct {
	GOGC  GOGC
	limit int // bytes; 0: none given
}

// Bounds of --memory-limit, in bytes.
const (
	memoryMin = 1 << 20
	memoryMax = 1 << 50
)

// Define adds --gogc and --memory-limit.
func (m *Memory) Define(flags *flag.FlagSet) {
	flags.Func("gogc", "", m.GOGC.Parse)
	flags.Func("memory-limit", "", Number(&m.limit, memoryMin, memoryMax))
}

// Apply sets for this process what was given.
func (m Memory) Apply() {
	m.GOGC.Apply()
	if m.limit > 0 {
		debug.SetMemoryLimit(int64(m.limit))
	}
}

const gogcMax = 1_000_000

// GOGC is a setting of the garbage collector's target, if one was given.
type GOGC struct {
	set     bool
	percent int // negative for off
}

// Parse reads a percentage, or off.
func (g *GOGC) Parse(text string) error {
	g.set = true
	if text == "off" {
		g.percent = -1
		return nil
	}
	if err := Number(&g.percent, 1, gogcMax)(text); err != nil {
		return fmt.Errorf("%w, or off", err)
	}
	return nil
}

// Apply sets it for this process, if it was given.
func (g GOGC) Apply() {
	if g.set {
		debug.SetGCPercent(g.percent)
	}
}

// String is what Parse reads, or empty.
func (g GOGC) String() string {
	switch {
	case !g.set:
		return ""
	case g.percent < 0:
		return "off"
	default:
		return strconv.Itoa(g.percent)
	}
}
