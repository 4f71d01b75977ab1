// Package serve answers requests for files, in the coding that the client wants
// most of those that are worth it.
package serve

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"wallfinder.dev/subjects/content/encode"
	"wallfinder.dev/subjects/content/files"
	"wallfinder.dev/subjects/content/negotiation"
	"wallfinder.dev/subjects/content/store"
	"wallfinder.dev/subjects/content/table"
)

// Settings are what is served, and how.
type Settings struct {
	Files     files.Files
	Table     table.Table
	Codings   []string // those that may be used at all, in the server's order
	Levels    encode.Levels
	Threshold int // smaller files are sent as they are
	Kept      *store.Store
}

// Serve answers on a listener until it is closed: HTTP/1.1, and HTTP/2 by
// ALPN or by prior knowledge.
func Serve(listener net.Listener, settings Settings) error {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := http.Server{Handler: Handler(settings), Protocols: &protocols}
	return server.Serve(listener)
}

// Handler answers GET and HEAD.
func Handler(settings Settings) http.Handler { return settings }

func (s Settings) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	file, err := s.Files.Find(strings.TrimPrefix(request.URL.Path, "/"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, "no such file", http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", file.Type)
	can := s.can(file)
	if len(can) > 0 {
		header.Set("Vary", "Accept-Encoding")
	}
	// A part of a file is a part of the file as it is.
	if request.Header.Get("Range") != "" {
		header.Set("ETag", tagOf(file, negotiation.Identity))
		http.ServeContent(w, request, file.Name, file.Changed, bytes.NewReader(file.Body))
		return
	}
	coding := negotiation.Identity
	if len(can) > 0 {
		wanted, ok := negotiation.Choose(request.Header.Values("Accept-Encoding"), can)
		if !ok {
			http.Error(w, "the client accepts no coding that can be had, nor none", http.StatusNotAcceptable)
			return
		}
		coding = wanted
	}
	body, err := s.body(file, coding)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	send(w, request, file, coding, body)
}

// can lists the codings that are worth it for a file.
func (s Settings) can(file *files.File) []string {
	if len(file.Body) < s.Threshold {
		return nil
	}
	worth := s.Table.Of(file.Type)
	return slices.DeleteFunc(slices.Clone(s.Codings), func(coding string) bool { return !slices.Contains(worth, coding) })
}

// body is a file in a coding, which is made once and kept.
func (s Settings) body(file *files.File, coding string) ([]byte, error) {
	if coding == negotiation.Identity {
		return file.Body, nil
	}
	key := store.Key{Name: file.Name, Coding: coding, Changed: file.Changed, Size: len(file.Body)}
	body, _, err := s.Kept.Get(key, func() ([]byte, error) { return s.Levels.Encode(coding, file.Body) })
	return body, err
}

// tagOf names a representation: another coding is another one (RFC 9110, section 8.8.3.3).
func tagOf(file *files.File, coding string) string {
	if coding == negotiation.Identity {
		return `"` + file.Tag + `"`
	}
	return `"` + file.Tag + "-" + coding + `"`
}

// send answers with the whole of a representation, or that the client has it. It
// is the same way for all codings and for none, so that what they cost differs
// by their bytes.
func send(w http.ResponseWriter, request *http.Request, file *files.File, coding string, body []byte) {
	header := w.Header()
	tag := tagOf(file, coding)
	header.Set("ETag", tag)
	header.Set("Last-Modified", file.Changed.UTC().Format(http.TimeFormat))
	if isUnchanged(request, tag, file.Changed) {
		header.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if coding != negotiation.Identity {
		header.Set("Content-Encoding", coding)
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if request.Method == http.MethodGet {
		_, _ = w.Write(body)
	}
}

// isUnchanged says whether a client has what it would be sent. A tag is better
// than a time, and decides where both are given (RFC 9110, section 13.1.3).
func isUnchanged(request *http.Request, tag string, changed time.Time) bool {
	if tags := request.Header.Values("If-None-Match"); len(tags) > 0 {
		return isHad(tags, tag)
	}
	since, err := http.ParseTime(request.Header.Get("If-Modified-Since"))
	return err == nil && !changed.Truncate(time.Second).After(since)
}

// isHad says whether a client has what the tag names, by weak comparison.
func isHad(values []string, tag string) bool {
	for _, value := range values {
		for one := range strings.SplitSeq(value, ",") {
			if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
				return true
			}
		}
	}
	return false
}
