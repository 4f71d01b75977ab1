// Package table says which types of content are worth compressing, and by
// which codings: a list in a file, as servers are configured with it.
package table

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"wallfinder.dev/subjects/content/encode"
)

// Table has the codings of each type; a type that is not in it has those of
// every type, if it has some for them.
type Table map[string][]string

// every stands for all types that a table does not name.
const every = "*/*"

// Any compresses whatever it is.
func Any() Table { return Table{every: encode.Codings} }

// Default compresses text and what is text inside, and leaves alone what is
// compressed by its nature (small-files.txt).
func Default() Table {
	table, err := Parse(strings.NewReader(defaults))
	if err != nil {
		panic(err)
	}
	return table
}

const defaults = `
text/css                any
text/html               any
text/plain              any
application/javascript  any
application/json        any
application/pdf         none
application/xhtml+xml   any
application/xml         any
application/gzip        none
image/gif               none
image/jpeg              none
image/png               none
image/svg+xml           any
image/webp              none
image/x-icon            none
audio/mpeg              none
video/mp4               none
audio/webm              none
video/webm              none
font/otf                any
font/ttf                any
font/woff2              none
`

// Parse reads a line for each type: its name, and `none`, `any`, or codings in
// the order in which the server prefers them. Empty lines, lines of braces and
// what follows a # are passed over.
func Parse(r io.Reader) (Table, error) {
	table := Table{}
	lines := bufio.NewScanner(r)
	for number := 1; lines.Scan(); number++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.FieldsFunc(text, func(c rune) bool { return c == ' ' || c == '\t' || c == ',' })
		if len(words) == 0 || strings.ContainsAny(text, "{}") {
			continue
		}
		if !strings.Contains(words[0], "/") || len(words) < 2 {
			return nil, fmt.Errorf("line %d: %q is no type with its codings", number, strings.TrimSpace(text))
		}
		codings, err := codings(words[1:])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		table[strings.ToLower(words[0])] = codings
	}
	return table, lines.Err()
}

func codings(words []string) ([]string, error) {
	switch {
	case len(words) == 1 && words[0] == "none":
		return nil, nil
	case len(words) == 1 && words[0] == "any":
		return encode.Codings, nil
	}
	for _, word := range words {
		if !slices.Contains(encode.Codings, word) {
			return nil, fmt.Errorf("%q is none of %s, any, none", word, strings.Join(encode.Codings, ", "))
		}
	}
	return words, nil
}

// Of gives the codings of a type, its parameters left out.
func (t Table) Of(contentType string) []string {
	name, _, _ := strings.Cut(contentType, ";")
	if codings, ok := t[strings.ToLower(strings.TrimSpace(name))]; ok {
		return codings
	}
	return t[every]
}
