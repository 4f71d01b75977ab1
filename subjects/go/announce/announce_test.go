package announce

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestALineIsOneLineOfJSON(t *testing.T) {
	var out bytes.Buffer
	line := struct {
		Subject
		Extra string `json:"extra"`
	}{Subject{Listening: "127.0.0.1:1", PID: 7, Children: []int{}, Pprof: []string{}}, "a\nb"}
	if err := Write(&out, line); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "\n") != 1 || !strings.HasSuffix(out.String(), "\n") {
		t.Errorf("not one line: %q", out.String())
	}
	var fields map[string]any
	if err := json.Unmarshal(out.Bytes(), &fields); err != nil {
		t.Fatal(err)
	}
	if fields["listening"] != "127.0.0.1:1" || fields["extra"] != "a\nb" {
		t.Errorf("fields are missing: %v", fields)
	}
	if children, ok := fields["children"].([]any); !ok || len(children) != 0 {
		t.Errorf("no children must be an empty list, not %v", fields["children"])
	}
}

func TestModulesAreNamedByTheirLastWord(t *testing.T) {
	for module, want := range map[string]string{
		"github.com/gofiber/fiber/v3":      "fiber",
		"github.com/valyala/fasthttp":      "fasthttp",
		"github.com/brianvoe/gofakeit/v7":  "gofakeit",
		"google.golang.org/grpc":           "grpc",
		"example.com/v":                    "v",
		"example.com/vault":                "vault",
		"github.com/andybalholm/brotli/v2": "brotli",
	} {
		if got := shortName(module); got != want {
			t.Errorf("%s is named %q, want %q", module, got, want)
		}
	}
}
