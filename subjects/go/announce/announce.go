// Package announce writes the one line by which a subject tells the tool that
// it listens. It is all the two share besides the wire.
package announce

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
)

// Subject is what every subject says of itself. A subject with more to say
// embeds it.
type Subject struct {
	Listening  string            `json:"listening"` // host:port, with the real port
	PID        int               `json:"pid"`       // the process to signal
	Server     string            `json:"server"`
	Children   []int             `json:"children"`   // processes that serve in its stead; empty if it serves itself
	GOMAXPROCS int               `json:"gomaxprocs"` // of each process that serves
	Pprof      []string          `json:"pprof"`      // host:port of each process: its own first, then the children's
	Versions   map[string]string `json:"versions"`
}

// Write writes a line as JSON, with its newline, in one call.
func Write(w io.Writer, line any) error {
	encoded, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("the start-up line has no JSON form: %w", err)
	}
	if _, err := w.Write(append(encoded, '\n')); err != nil {
		return fmt.Errorf("nobody reads the start-up line: %w", err)
	}
	return nil
}

// Versions looks up module paths in what this binary was built from, and adds
// the Go release. Each is named by the last word of its path: "fiber", "fasthttp".
func Versions(modules ...string) map[string]string {
	versions := map[string]string{"go": runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return versions
	}
	for _, dependency := range info.Deps {
		for _, module := range modules {
			if dependency.Path == module {
				versions[shortName(module)] = dependency.Version
			}
		}
	}
	return versions
}

// shortName is the last word of a module path that is not its major version.
func shortName(module string) string {
	words := strings.Split(module, "/")
	last := words[len(words)-1]
	if len(words) > 1 && len(last) > 1 && last[0] == 'v' && strings.Trim(last[1:], "0123456789") == "" {
		return words[len(words)-2]
	}
	return last
}
