// Package negotiation chooses the coding of an answer by what a client says
// that it accepts (RFC 9110, section 12.5.3).
package negotiation

import (
	"slices"
	"strconv"
	"strings"
)

// Identity is the coding that is none.
const Identity = "identity"

// member is one of the codings that a client names, and how much it wants it:
// 0 not at all, 1000 as much as can be.
type member struct {
	coding string
	weight int
}

// Choose gives the coding that a client wants most among those that can be
// had, the first it names among equals; identity where it names none of them.
// values are those of all Accept-Encoding fields of the request, in order. It
// is false where the client refuses all that can be had, identity included.
func Choose(values []string, can []string) (string, bool) {
	wanted := members(values)
	// Stable: what is named first comes first among equals.
	slices.SortStableFunc(wanted, func(a, b member) int { return b.weight - a.weight })
	named := func(coding string) bool {
		return slices.ContainsFunc(wanted, func(m member) bool { return m.coding == coding })
	}
	refusesIdentity := false
	for _, m := range wanted {
		switch {
		case m.weight == 0:
			refusesIdentity = refusesIdentity || m.coding == Identity || m.coding == "*" && !named(Identity)
		case m.coding == "*":
			for _, coding := range can {
				if !named(coding) {
					return coding, true
				}
			}
			if !named(Identity) {
				return Identity, true
			}
		case m.coding == Identity || slices.Contains(can, m.coding):
			return m.coding, true
		}
	}
	return Identity, !refusesIdentity
}

// members reads the fields. What is malformed is as if it were not there.
func members(values []string) []member {
	var all []member
	for _, value := range values {
		for text := range strings.SplitSeq(value, ",") {
			if m, ok := parse(text); ok {
				all = append(all, m)
			}
		}
	}
	return all
}

func parse(text string) (member, bool) {
	coding, parameters, has := strings.Cut(text, ";")
	m := member{coding: strings.ToLower(strings.TrimSpace(coding)), weight: 1000}
	if m.coding == "x-gzip" {
		m.coding = "gzip"
	}
	if m.coding == "" || strings.ContainsAny(m.coding, " \t\"=") {
		return member{}, false
	}
	if !has {
		return m, true
	}
	name, value, has := strings.Cut(parameters, "=")
	if !has || !strings.EqualFold(strings.TrimSpace(name), "q") {
		return member{}, false
	}
	weight, ok := thousandths(strings.TrimSpace(value))
	m.weight = weight
	return m, ok
}

// thousandths reads a weight: 0 to 1 with at most three digits behind the point.
func thousandths(text string) (int, bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	if len(fraction) > 3 || whole != "0" && whole != "1" {
		return 0, false
	}
	digits, err := strconv.ParseUint((fraction + "000")[:3], 10, 16)
	if err != nil || whole == "1" && digits > 0 {
		return 0, false
	}
	if whole == "1" {
		return 1000, true
	}
	return int(digits), true
}
